# frozen_string_literal: true

# SASLauth, SASLauthclient: saslauthd's protocol. Requests have four fields, answers one, each after
# its length in two bytes.

module Gyre
  module EventMachine
    module Protocols
      # Fields with lengths.
      module SASLFields
        # @param data [String]
        def receive_data(data)
          (@sasl_bytes ||= String.new) << data
          while @sasl_bytes.bytesize >= 2 && @sasl_bytes.bytesize >= 2 + (size = @sasl_bytes.unpack1("n"))
            field = @sasl_bytes.byteslice(2, size)
            @sasl_bytes = @sasl_bytes.byteslice((2 + size)..)
            receive_field(field)
          end
        end

        private

        def send_fields(*fields) = send_data(fields.map { |field| field.to_s.b.then { |bytes| [bytes.bytesize, bytes].pack("na*") } }.join)
      end
      private_constant :SASLFields

      # Server; programs define `validate`.
      module SASLauth
        include SASLFields

        # Bytes of a field.
        MaxFieldSize = 128 * 1024

        # @return [Boolean]
        def validate(_username, _password, _system, _realm) = false

        private

        def receive_field(field)
          (@sasl_fields ||= []) << field
          return if @sasl_fields.size < 4

          fields = @sasl_fields
          @sasl_fields = nil
          send_fields(validate(*fields) ? "OK" : "NO")
        end
      end

      # Client.
      module SASLauthclient
        include SASLFields

        # Bytes of a field.
        MaxFieldSize = SASLauth::MaxFieldSize

        # @return [DefaultDeferrable] succeeds if the server accepts them
        def validate?(username, password, system = nil, realm = nil)
          send_fields(username, password, system, realm)
          DefaultDeferrable.new.tap { |query| (@sasl_queries ||= []) << query }
        end

        private

        def receive_field(field)
          query = @sasl_queries&.shift
          field.start_with?("OK") ? query&.succeed : query&.fail
        end
      end
    end
  end
end
