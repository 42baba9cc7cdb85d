# frozen_string_literal: true

# Defines Gyre's EventMachine under the gem's name. `gyre em` and the stub gem
# (eventmachine.gemspec) add this folder to the load path.

module Gyre
  # If a gem has already opened the module EventMachine, it keeps the gem's constants.
  EventMachine = ::EventMachine if defined?(::EventMachine) && !const_defined?(:EventMachine, false)
end

require "gyre/event_machine"

EventMachine = Gyre::EventMachine unless defined?(EventMachine)
EM = EventMachine unless defined?(EM)
BufferedTokenizer = EventMachine::BufferedTokenizer

# Makes Rails keep its state for each fiber, as waiting callbacks share a thread.
class << EventMachine
  prepend(Module.new do
    def run(*)
      if defined?(::ActiveSupport::IsolatedExecutionState) && !reactor_running?
        require "gyre/web/frameworks/isolation"
        Gyre::Web::Isolation.apply(::Logger.new(nil))
      end
      super
    end
  end)
end

# Marks the gem's parts as loaded, as programs may require them, and this file has defined them all.
%w[buftok callback channel completion connection deferrable file_watch future io_streamer iterator messages pool process_watch processes protocols
   queue resolver spawnable streamer threaded_resource tick_loop timers version].each do |part|
  $LOADED_FEATURES << "#{__dir__}/em/#{part}.rb"
end
%w[header_and_content httpclient httpclient2 line_and_text line_protocol linetext2 memcache object_protocol saslauth smtpclient smtpserver
   stomp].each { |part| $LOADED_FEATURES << "#{__dir__}/em/protocols/#{part}.rb" }
