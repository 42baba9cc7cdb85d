# frozen_string_literal: true

# ObjectProtocol, SASLauth and SASLauthclient (saslauthd). Each field follows its length.

module Gyre
  module EventMachine
    module Protocols
      # Cuts fields.
      # @api private
      module SizedFields
        # @param data [String]
        def receive_data(data)
          (@sized_bytes ||= String.new) << data
          while (size = @sized_bytes.unpack1(length_format)) && @sized_bytes.bytesize >= (from = pack_field("").bytesize) + size
            field = @sized_bytes.byteslice(from, size)
            @sized_bytes = @sized_bytes.byteslice((from + size)..)
            receive_field(field)
          end
        end

        private

        def length_format = "n"

        def pack_field(bytes) = [bytes.bytesize, bytes].pack("#{length_format}a*")
      end

      # Exchanges objects. For untrusted peers replace Marshal, which makes objects of any class.
      module ObjectProtocol
        include SizedFields

        # @return [#dump, #load]
        def serializer = Marshal

        # @param object [Object]
        def receive_object(object); end

        # @param object [Object]
        def send_object(object) = send_data(pack_field(serializer.dump(object)))

        private

        def length_format = "N"

        def receive_field(bytes) = receive_object(serializer.load(bytes))
      end

      # A server whose requests have four fields. Programs define `validate`.
      module SASLauth
        include SizedFields

        # Maximum bytes of a field; Gyre does not check it.
        MaxFieldSize = 128 * 1024

        # @return [Boolean]
        def validate(_username, _password, _system, _realm) = false

        private

        def receive_field(field)
          (@sasl_fields ||= []) << field
          return if @sasl_fields.size < 4

          fields = @sasl_fields
          @sasl_fields = nil
          send_data(pack_field(validate(*fields) ? "OK" : "NO"))
        end
      end

      # Client.
      module SASLauthclient
        include SizedFields

        # Maximum bytes of a field; Gyre does not check it.
        MaxFieldSize = SASLauth::MaxFieldSize

        # @return [DefaultDeferrable] succeeds if the server accepts the credentials
        def validate?(username, password, system = nil, realm = nil)
          send_data([username, password, system, realm].map { |field| pack_field(field.to_s) }.join)
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
