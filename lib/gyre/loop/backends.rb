# frozen_string_literal: true

# Chooses a loop's backend: one of the native engine's (C), or the portable engine's (Ruby), which
# is called select. Called by Gyre::Scheduler, Gyre::Loop and commands. Opens native backends to see
# whether they work.
require_relative "../errors"
require_relative "../ractor"

module Gyre
  class Loop
    PORTABLE = "select"
    ALIASES = { "uring" => "io_uring" }.freeze
    private_constant :ALIASES

    class << self
      # Lists the backends, the best first. If the extension is missing, the list is ["select"].
      def backends = native? ? [*Native::BACKENDS.keys, PORTABLE] : [PORTABLE]

      def availables = backends.select { |name| probe(name).first }

      # True if the backend is compiled in, even if the kernel will refuse it.
      def built?(name) = name == PORTABLE || (native? && Native::BACKENDS[name].nil?)

      # Returns the backend that a loop would get for this `name`; nil or "": Gyre chooses. Raises
      # ArgumentError for an unknown name, RuntimeError if the backend does not open.
      def backend(name = ENV["GYRE_BACKEND"])
        name = known(name) or return availables.first

        opens, reason = probe(name)
        raise "backend #{name} cannot be used: #{reason}" unless opens

        name
      end

      # Yields :native or :portable and the backend's name. If no name is requested, yields one
      # backend after another until one opens. Raises ArgumentError for an unknown name,
      # RuntimeError or SystemCallError if the backend does not open.
      def on_backend(name = nil)
        name = known(name.nil? ? ENV["GYRE_BACKEND"] : name)
        return yield(:portable, PORTABLE) if name == PORTABLE || !native?
        return yield(:native, name) if name

        refusals = Ractor.current[:gyre_refusals] = []
        Native::BACKENDS.each do |native, missing|
          return yield(:native, native) unless missing
        rescue SystemCallError => error
          refusals << error.message
        end
        yield :portable, PORTABLE
      end

      # True if the extension loads. Does not look for it if GYRE_BACKEND is select.
      def native?
        return false if ENV["GYRE_BACKEND"] == PORTABLE

        require_relative "../native" unless defined?(Native) # a Ractor should not require files
        Native.available?
      end

      # Defines the extension's classes of a part, if it loads. Called by the Ruby files that reopen
      # them. The parts are in ext/gyre/gyre.c.
      def define_native(part) = (Native.define(part) if native?)

      # Raises ExtensionRequired if no native backend opens. The message names the part that needs
      # the native engine, and a remedy.
      def require_native(what)
        return if native? && (Ractor.current[:gyre_native_opens] ||= Native::BACKENDS.any? { |name, _| probe(name).first })

        raise ExtensionRequired, "#{what} needs Gyre's C extension: #{native_remedy}"
      end

      # Describes the chosen backend and tells why the others were not taken.
      def explain
        taken = backend
        text = "backend: #{describe(taken, probe(taken).last)}, #{asked.empty? ? "the best one here" : "chosen by GYRE_BACKEND"}\n"
        others = backends - [taken]
        text + others.map { |name| "not taken: #{describe(name)}: #{reason_against(name)}\n" }.join + explain_absences
      rescue ArgumentError, RuntimeError => error
        "backend: none, GYRE_BACKEND=#{asked}: #{error.message}\n"
      end

      def native_remedy
        if asked == PORTABLE then "GYRE_BACKEND=select runs only the loop and the scheduler; unset it"
        elsif native? then "no native backend opens here (Gyre::Loop.explain has the reasons)"
        else "#{Native.load_error}; install make, a C compiler and Ruby's headers (Debian: build-essential ruby-dev), then reinstall the gem " \
               "(in a checkout: rake compile)"
        end
      end

      private

      def asked = ENV["GYRE_BACKEND"].to_s

      def known(name)
        name = ALIASES.fetch(name.to_s, name.to_s)
        return if name.empty?
        return name if backends.include?(name)

        raise ArgumentError, "unknown backend #{name.inspect}: choose one of #{backends.join(", ")}" if native?

        raise ArgumentError, "backend #{name.inspect} is not here: without the C extension (#{extension_absent}) there is only " \
                             "select; `rake compile` builds it"
      end

      def probe(name) = name == PORTABLE ? [true, nil] : Native.probe(name)

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

        Ractor.current[:gyre_refusals].to_a.map { |reason| "passed over when a loop was last made: #{reason}\n" }.join
      end

      def extension_absent = asked == PORTABLE ? "GYRE_BACKEND=select rules it out" : Native.load_error.message
    end
  end
end
