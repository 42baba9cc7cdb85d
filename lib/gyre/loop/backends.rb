# frozen_string_literal: true

# Which backend drives a loop: one of the native engine's (C extension), or select of the portable
# one (pure Ruby). Gyre::Scheduler, Gyre::Loop and the command line ask here. Whether a native
# backend can be used is found out by opening it; nothing stays open.
require_relative "../errors"

module Gyre
  # The event loop.
  class Loop
    # The portable engine's only backend.
    PORTABLE = "select"
    # Shorter names that are understood, too.
    ALIASES = { "uring" => "io_uring" }.freeze
    private_constant :ALIASES

    class << self
      # What can be asked for, the best first. Without the extension that is select alone.
      # @return [Array<String>]
      def backends
        native? ? Native.backends.push(PORTABLE) : [PORTABLE]
      end

      # The backends that this build has and that open on this machine.
      # @return [Array<String>] the best first, such as ["epoll", "io_uring", "select"]
      def availables
        backends.select { |name| probe(name).first }
      end

      # Whether this build has a backend; the kernel may refuse it all the same.
      # @param name [String]
      # @return [Boolean]
      # @api private
      def built?(name)
        opens, reason = probe(name)
        opens || !reason.start_with?("not built")
      end

      # The backend that a loop would get.
      # @param name [String, Symbol, nil] what was asked for; nil or "" leaves the choice to us
      # @return [String]
      # @raise [ArgumentError] for an unknown name
      # @raise [RuntimeError] when it is not built or does not open here
      def backend(name = ENV["GYRE_BACKEND"])
        name = known(name) or return availables.first

        opens, reason = probe(name)
        raise "backend #{name} cannot be used: #{reason}" unless opens

        name
      end

      # Has a loop made by the engine of a backend, and by the portable one where nothing was asked
      # for and no native backend opens.
      # @param name [String, Symbol, nil] what was asked for; nil leaves it to GYRE_BACKEND, and
      #   then to us
      # @yieldparam engine [Symbol] :native or :portable
      # @yieldparam backend [String, nil] its name; nil: the first native one that opens
      # @return what the block returns
      # @raise [ArgumentError] for an unknown name
      # @raise [RuntimeError, SystemCallError] when the backend is not built or does not open here
      def on_backend(name = nil)
        name = known(name.nil? ? ENV["GYRE_BACKEND"] : name)
        return yield(:portable, PORTABLE) if name == PORTABLE || !native?

        begin
          yield :native, name
        rescue SystemCallError # the kernel refuses what the backends need; Native.refusals has the reasons
          raise if name

          yield :portable, PORTABLE
        end
      end

      # Whether the native engine is there. Does not even look for it when GYRE_BACKEND=select.
      # @return [Boolean]
      def native?
        return false if ENV["GYRE_BACKEND"] == PORTABLE

        require_relative "../native" unless defined?(Native) # a Ractor had better require nothing
        Native.available?
      end

      # Called by what is built on the native engine alone: HTTP, the log server and its client.
      # @param what [String] the beginning of the message, such as "the HTTP server"
      # @return [void]
      # @raise [ExtensionRequired] one line: what is missing and what to do
      def require_native(what)
        return if native? && Native.backends.any? { |name| probe(name).first }

        raise ExtensionRequired, "#{what} needs Gyre's C extension: #{native_remedy}"
      end

      # For people: which backend is taken, which is not, and why.
      # @return [String] some lines
      def explain
        taken = backend
        text = "backend: #{describe(taken, probe(taken).last)}, #{asked.empty? ? "the best one here" : "chosen by GYRE_BACKEND"}\n"
        others = backends - [taken]
        text + others.map { |name| "not taken: #{describe(name)}: #{reason_against(name)}\n" }.join + explain_absences
      rescue ArgumentError, RuntimeError => error
        "backend: none, GYRE_BACKEND=#{asked}: #{error.message}\n"
      end

      # @return [String] why the native engine is not there, and what to do
      # @api private
      def native_remedy
        if asked == PORTABLE then "GYRE_BACKEND=select runs only the loop and the scheduler; unset it"
        elsif native? then "no native backend opens here (Gyre::Loop.explain has the reasons)"
        else "#{Native.load_error}; install make, a C compiler and Ruby's headers (Debian: build-essential ruby-dev), then reinstall the gem " \
               "(in a checkout: rake compile)"
        end
      end

      private

      def asked
        ENV["GYRE_BACKEND"].to_s
      end

      # @return [String, nil] the name as a String, nil when there is none
      def known(name)
        name = ALIASES.fetch(name.to_s, name.to_s)
        return if name.empty?
        return name if backends.include?(name)

        raise ArgumentError, "unknown backend #{name.inspect}: choose one of #{backends.join(", ")}" if native?

        raise ArgumentError, "backend #{name.inspect} is not here: without the C extension (#{extension_absent}) there is only " \
                             "select; `rake compile` builds it"
      end

      # @return [Array] whether it opens; its details, or why not
      def probe(name)
        name == PORTABLE ? [true, nil] : Native.probe(name)
      end

      def describe(name, details = nil)
        engine = name == PORTABLE ? "portable engine, pure Ruby" : "native engine, C extension"
        "#{name} (#{[engine, details].compact.join("; ")})"
      end

      def reason_against(name)
        opens, reason = probe(name)
        opens ? "not asked for; GYRE_BACKEND=#{name} takes it" : reason
      end

      def explain_absences
        return "not taken: the native engine (C extension): #{extension_absent}\n" unless native?

        Native.refusals.map { |name, reason| "passed over when a loop was last made: #{name}: #{reason}\n" }.join
      end

      def extension_absent
        asked == PORTABLE ? "GYRE_BACKEND=select rules it out" : Native.load_error.message
      end
    end
  end
end
