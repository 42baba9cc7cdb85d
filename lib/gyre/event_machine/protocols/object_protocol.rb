# frozen_string_literal: true

# ObjectProtocol: Ruby objects, each preceded by its length in four bytes.

module Gyre
  module EventMachine
    module Protocols
      # Sends and receives objects. Marshal makes objects of any class: use another serializer for
      # untrusted peers.
      module ObjectProtocol
        # @return [#dump, #load]
        def serializer = Marshal

        # @param data [String]
        def receive_data(data)
          (@object_bytes ||= String.new) << data
          while @object_bytes.bytesize >= 4 && @object_bytes.bytesize >= 4 + (size = @object_bytes.unpack1("N"))
            object = @object_bytes.byteslice(4, size)
            @object_bytes = @object_bytes.byteslice((4 + size)..)
            receive_object(serializer.load(object))
          end
        end

        # @param object [Object]
        def receive_object(object); end

        # @param object [Object]
        def send_object(object)
          bytes = serializer.dump(object)
          send_data([bytes.bytesize].pack("N") << bytes)
        end
      end
    end
  end
end
