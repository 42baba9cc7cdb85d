# frozen_string_literal: true

# The format of records in the acknowledged protocol, on the wire and in disk queues. Used by
# ext/gyre/log/log_record.c, and for comparison by test/oracle/log/records.rb.
#
#    0 u32 length: the bytes from offset 8 on        4 u32 CRC-32 of those bytes        (all big-endian)
#    8 u64 sequence number, from 1 on               16 u64 time of logging, µs since 1970
#   24 u8 bytes of the service                      25 u8 bytes of the severity
#   26 service, severity, message

module Gyre
  module Log
    module Records
      HEADER_BYTES = 8
      # Minimum of the length field, if service, severity and message are empty.
      BODY_BYTES_LEAST = 18
      BYTES_LIMIT = 1 << 20
    end
  end
end
