# frozen_string_literal: true

# The oracle's parser of what a client sends to memcached: the meta commands, and the few of the
# text protocol that have no other form. What memcached 1.6.18 would refuse is refused here, too.

module MemcachedOracle
  # name is "mg", "ms" and so on; key the key's bytes, decoded where flag b is there; data of ms;
  # flags a Hash of letter → its word's rest.
  Command = Struct.new(:name, :key, :data, :flags, :bytesize, keyword_init: true) do
    def quiet? = flags.key?("q")
  end

  # Cuts commands from the beginning of bytes.
  module Commands
    KEY_BYTES_LIMIT = 250
    # What memcached 1.6.18 knows for each command.
    FLAGS = { "mg" => "bcfhklOqstuvENRT", "ms" => "bcCFIkOqsTM", "md" => "bCIkOqT", "ma" => "bCNJDTMOqtcvk", "me" => "b" }.freeze
    TEXTS = %w[mn version stats flush_all set verbosity].freeze

    class << self
      # Returns the first command; what is wrong with it; nil where more bytes are needed.
      def first(bytes)
        stop = bytes.index("\r\n") or return
        words = bytes.byteslice(0, stop).split(" ", -1)
        return "empty words in #{words.inspect}" if words.empty? || words.include?("")
        return "a control byte in #{words.inspect}" if words.any? { |word| word.match?(/[\x00-\x1f\x7f]/n) }

        FLAGS.key?(words[0]) ? meta(words, bytes, stop + 2) : text(words, bytes, stop + 2)
      end

      private

      def meta(words, bytes, start)
        name, key, *flags = words
        size = flags.shift if name == "ms"
        flags = flags.to_h { |flag| [flag[0], flag[1..]] }
        return "unknown flags in #{words.inspect}" unless flags.keys.all? { |letter| FLAGS[name].include?(letter) }
        return "a flag twice in #{words.inspect}" if flags.size != words.size - (name == "ms" ? 3 : 2)
        return "a wrong key in #{words.inspect}" unless key && key.bytesize <= KEY_BYTES_LIMIT

        key = key.unpack1("m0") if flags.key?("b")
        return Command.new(name: name, key: key, flags: flags, bytesize: start) unless name == "ms"

        with_data(Command.new(name: name, key: key, flags: flags), size, bytes, start)
      end

      def text(words, bytes, start)
        return "unknown command #{words.inspect}" unless TEXTS.include?(words[0])

        command = Command.new(name: words[0], key: words[1], flags: {}, bytesize: start)
        words[0] == "set" ? with_data(command, words[4], bytes, start) : command
      end

      def with_data(command, size, bytes, start)
        return "a wrong size #{size.inspect}" unless size&.match?(/\A\d+\z/)

        stop = start + size.to_i
        return if bytes.bytesize < stop + 2
        return "data that does not end" unless bytes.byteslice(stop, 2) == "\r\n"

        command.data = bytes.byteslice(start, size.to_i)
        command.bytesize = stop + 2
        command
      end
    end
  end
end
