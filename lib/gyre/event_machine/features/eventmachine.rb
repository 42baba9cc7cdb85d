# frozen_string_literal: true

# Gyre's EventMachine under the gem's name: `gyre em` and the stub gem (eventmachine.gemspec) put
# this folder into the load path.

require "gyre/event_machine"

EventMachine = Gyre::EventMachine
EM = EventMachine
BufferedTokenizer = EventMachine::BufferedTokenizer

# Programs may require single parts, which are all loaded here.
%w[buftok callback channel completion connection deferrable file_watch future iterator messages pool process_watch processes protocols
   queue resolver spawnable streamer threaded_resource tick_loop timers version].each do |part|
  $LOADED_FEATURES << "#{__dir__}/em/#{part}.rb"
end
