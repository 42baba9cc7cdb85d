# frozen_string_literal: true

# Runs Async, and programs built on Async (Falcon, async-http), on Gyre's loop: `require
# "gyre/async"` before or after `require "async"`. Replaces only Async's selector.

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
  # Async on Gyre's loop.
  module Async
    # Makes Gyre's selector the default of IO::Event::Selector. IO_EVENT_SELECTOR overrides this
    # default: "Gyre" selects Gyre's selector, other names such as "EPoll" io-event's.
    module Default
      # @param env [Hash{String => String}]
      # @return [Class] the selector that a new Async scheduler gets
      def default(env = ENV) = env["IO_EVENT_SELECTOR"] ? super : Selector
    end

    IO::Event::Selector.const_set(:Gyre, Selector)
    IO::Event::Selector.singleton_class.prepend(Default)
  end
end
