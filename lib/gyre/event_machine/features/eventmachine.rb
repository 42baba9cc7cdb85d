# frozen_string_literal: true

# `require "eventmachine"` with this folder in the load path: Gyre's under the gem's name. `gyre em`
# and the stub gem (eventmachine.gemspec) put it there.

require "gyre/event_machine"

EventMachine = Gyre::EventMachine
EM = EventMachine
BufferedTokenizer = EventMachine::BufferedTokenizer

# Programs may require single parts: all of them are already loaded.
%w[buftok callback channel completion connection deferrable file_watch future iterator messages pool process_watch processes protocols
   queue resolver spawnable streamer threaded_resource tick_loop timers version].each do |part|
  $LOADED_FEATURES << "#{__dir__}/em/#{part}.rb"
end
