# frozen_string_literal: true

# A bounded memory of recent files of a Files::Root, with the bytes of small ones. Opens nothing.

module Gyre
  module HTTP
    module Files
      class Memory
        # The variant without coding, others by coding, and the entry's end.
        Entry = Struct.new(:plain, :coded, :until_s)
        ENTRIES_LIMIT = 4096
        BYTES_LIMIT = 16 * 1024 * 1024
        private_constant :ENTRIES_LIMIT, :BYTES_LIMIT

        def initialize
          forget
        end

        def [](name) = @entries[name]

        def keep(name, entry)
          drop(name)
          forget if @entries.size >= ENTRIES_LIMIT || @bytes > BYTES_LIMIT
          @bytes += weight(entry)
          @entries[name] = entry
        end

        def drop(name)
          former = @entries.delete(name)
          @bytes -= weight(former) if former
          nil
        end

        def forget
          @entries = {}
          @bytes = 0
        end

        private

        def weight(entry)
          [entry.plain, *entry.coded.values].sum { |variant| variant.content.nil? ? 0 : variant.size }
        end
      end
    end
  end
end
