# frozen_string_literal: true

# Logger's methods for Gyre::Log::Client; they call its `append`. They are in a module, so that a
# module that is later included into the client (ActiveSupport's LoggerSilence) overrides them.

require "gyre/log/client/text"
require "gyre/logger"

module Gyre
  module Log
    # Logger's methods over `append`.
    module LoggerMethods
      # @return [Integer] lower severities are dropped; within {#silence} the level given there
      def level
        return @level if @overrides.zero?

        Thread.current[@override_key] || super
      end

      # Logs a message.
      # @param severity [Integer, String, Symbol, nil] a number of Logger's, or any name
      # @param message [Object, nil] String, exception or other; nil: the block's value, or progname
      # @param progname [Object, nil] for the formatter
      # @return [true]
      # @raise [ArgumentError] the wire cannot carry its severity
      # @raise [Denied, Incompatible] the server refuses this client; the message is kept
      # @raise [SpoolFull] when_full: :raise, and memory and spool are full
      def add(severity, message = nil, progname = nil)
        least = level
        return true if least.positive? && Text.rank(severity) < least

        if message.nil?
          if block_given?
            message = yield
          else
            message = progname
            progname = nil
          end
        end
        formatter = @formatter
        message = formatted(formatter, severity, message, progname) if formatter
        append(severity, message)
      end
      alias log add

      # @!method debug(message = nil, &block) Like Logger's: a message, or a block called only if
      #   the level allows it.
      # @!method info(message = nil, &block)
      #   As {#debug}.
      # @!method warn(message = nil, &block)
      #   As {#debug}.
      # @!method error(message = nil, &block)
      #   As {#debug}.
      # @!method fatal(message = nil, &block)
      #   As {#debug}.
      # @!method unknown(message = nil, &block) As {#debug}. Sends the severity as "fatal", as
      #   servers drop unknown severities.
      %i[debug info warn error fatal unknown].each_with_index do |name, rank|
        class_eval <<~METHOD, __FILE__, __LINE__ + 1
          def #{name}(message = nil, &block)
            block ? add(#{rank}, nil, message, &block) : add(#{rank}, message)
          end
        METHOD
      end

      # Logs a text with severity "info", at any level, without the formatter.
      # @param message [#to_s]
      # @return [self]
      def <<(message)
        append(1, message.to_s.delete_suffix("\n"))
        self
      end

      # Raises the level in this fiber during the block.
      # @param severity [Integer]
      # @yieldparam self
      # @return what the block returns
      def silence(severity = ::Logger::ERROR)
        before = local_level
        self.local_level = severity
        begin
          yield self
        ensure
          self.local_level = before
        end
      end

      # The level within ActiveSupport's `silence` and `log_at`, which set it on each logger of a
      # BroadcastLogger.
      # @return [Integer, nil] in this fiber; nil: none
      def local_level = Thread.current[@override_key]

      # @param severity [Integer, String, Symbol, nil] as for {#local_level}
      # @return [void]
      def local_level=(severity)
        severity = Text.rank(severity.to_s.downcase) unless severity.nil? || severity.is_a?(Integer)
        change = (severity ? 1 : 0) - (local_level ? 1 : 0)
        Thread.current[@override_key] = severity
        @override_lock.synchronize { @overrides += change }
      end

      # Like Logger 1.6.
      # @param severity [Integer, String, Symbol]
      # @return what the block returns
      def with_level(severity, &block) = silence(severity.is_a?(Integer) ? severity : Text.rank(severity.to_s.downcase), &block)

      private

      def set_up_levels
        @overrides = 0
        @override_lock = Mutex.new
        @override_key = :"gyre_log_level_#{object_id}"
      end

      # Formats a message without the newline that a formatter adds.
      def formatted(formatter, severity, message, progname)
        label = severity.is_a?(Integer) || severity.nil? ? format_severity(severity || ::Logger::UNKNOWN) : severity.to_s
        formatter.call(label, Time.now, progname || @progname, message).to_s.delete_suffix("\n")
      end
    end
  end
end
