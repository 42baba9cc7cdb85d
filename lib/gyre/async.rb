# frozen_string_literal: true

# The door for Async: after `require "gyre/async"` Async, and what is built on it (Falcon,
# async-http), waits on Gyre's loop. Before or after `require "async"`; it touches nothing but the
# choice of the selector.

if RUBY_VERSION < "3.3"
  raise LoadError, "gyre/async: Async needs Ruby 3.3 or newer, this is #{RUBY_VERSION}; Gyre.run does the same kind of work on this one"
end

begin
  require "io/event"
rescue LoadError => error
  raise unless error.path == "io/event"

  raise LoadError, "gyre/async: Async is not installed (#{error.message}): `gem install async`, or put `gem \"async\"` into the Gemfile"
end
require "gyre/async/selector"

module Gyre
  # What runs Async on Gyre's loop.
  module Async
    # Makes Gyre's selector the default of IO::Event::Selector. IO_EVENT_SELECTOR still decides
    # where it is set: "EPoll" and the others take io-event's, "Gyre" takes this one.
    module Default
      # @param env [Hash{String => String}]
      # @return [Class] the selector that a new Async scheduler gets
      def default(env = ENV)
        env["IO_EVENT_SELECTOR"] ? super : Selector
      end
    end

    IO::Event::Selector.const_set(:Gyre, Selector)
    IO::Event::Selector.singleton_class.prepend(Default)
  end
end
