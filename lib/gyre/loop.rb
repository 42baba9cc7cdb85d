# frozen_string_literal: true

# Which engine drives the loops of this process: the native one (C extension) or the portable one (pure Ruby).
# Gyre::Scheduler and the HTTP server ask here; nothing is started and no descriptor is opened by asking.

module Gyre
  # The event loop's face towards users: so far the choice of what drives it.
  class Loop
    # The engine that offers each backend.
    ENGINES = { "epoll" => :native, "select" => :portable }.freeze

    class << self
      # The engine to use.
      # @param name [String, Symbol, nil] a backend that was asked for; nil or "" leaves the choice to us
      # @return [Symbol] :native or :portable
      # @raise [ArgumentError] for a name that no engine knows
      # @raise [RuntimeError] when the backend needs the extension and that is not there
      def engine(name = ENV["GYRE_BACKEND"])
        name = name.to_s
        return native? ? :native : :portable if name.empty?

        chosen = ENGINES.fetch(name) { raise ArgumentError, "unknown backend #{name.inspect}: choose one of #{ENGINES.keys.join(", ")}" }
        raise missing_extension(name) if chosen == :native && !native?

        chosen
      end

      # Whether the native engine can be used. Does not even look for it when GYRE_BACKEND=select.
      # @return [Boolean]
      def native?
        return false if ENV["GYRE_BACKEND"] == "select"

        require_relative "native"
        Native.available?
      end

      # For people: which backend is taken, which is not, and why.
      # @return [String] some lines
      def explain
        asked = ENV["GYRE_BACKEND"].to_s
        taken = ENGINES.key(engine)
        lines = ["backend: #{taken} (#{describe(taken)}), #{asked.empty? ? "the best one here" : "as GYRE_BACKEND says"}"]
        ENGINES.each_key { |name| lines << "not taken: #{name} (#{describe(name)}): #{reason_against(name)}" unless name == taken }
        "#{lines.join("\n")}\n"
      end

      private

      def describe(backend)
        ENGINES.fetch(backend) == :native ? "native engine, C extension" : "portable engine, pure Ruby"
      end

      def reason_against(backend)
        return "GYRE_BACKEND=#{ENV["GYRE_BACKEND"]}" unless ENV["GYRE_BACKEND"].to_s.empty?
        return "the native engine is there and faster; GYRE_BACKEND=#{backend} takes it" if ENGINES.fetch(backend) == :portable

        Native.load_error.message
      end

      def missing_extension(name)
        reason = defined?(Native) && Native.load_error ? Native.load_error.message : "GYRE_BACKEND=select rules it out"
        "backend #{name} needs the C extension, which is not there (#{reason}): build it with `rake compile`, " \
          "or use the portable engine with GYRE_BACKEND=select"
      end
    end
  end
end
