# frozen_string_literal: true

# Finds and opens the file for a request's path in a folder, for Static and Sendfile. Checks names
# before any system call. The kernel ensures that paths stay below the folder, even with symbolic
# links (OpenFile, in C).

require "gyre/http/accept_encoding"
require "gyre/http/files/body"
require "gyre/http/files/media_types"
require "gyre/http/namespace"

Gyre::Loop.define_native(:http)

module Gyre
  module HTTP
    # Files that are sent without calling the app, or instead of the app's body.
    module Files
      # One folder under a URL prefix. Remembers found files for {REMEMBERED_S}; meanwhile it may
      # send the old content of a changed file.
      class Root
        # Maximum bytes of a file whose content is kept in memory while it is remembered.
        SMALL_BYTES = 64 * 1024
        # Seconds for which a found file is not checked for changes.
        REMEMBERED_S = 1.0
        PATH_BYTES_LIMIT = 4096
        # Extensions of precompressed files, in order of preference.
        EXTENSIONS = { "br" => ".br", "zstd" => ".zst", "gzip" => ".gz" }.freeze
        # File names with digests, as made by the asset pipelines of Rails, Vite and webpack.
        FINGERPRINTED = /[-.][0-9a-zA-Z_]{8,128}(?:\.digested)?(?:\.[a-z0-9]+){1,2}\z/.freeze
        DIGEST = /[-.](?=[0-9a-zA-Z_]*\d)/.freeze
        # The cache-control of a file that never changes under its name (RFC 8246).
        IMMUTABLE = "public, max-age=31536000, immutable"
        # Matches most paths: they have no encoded character, no hidden part and no empty part.
        PLAIN = %r{\A(?:/[^/.%\\\x00-\x1f\x7f-\xff][^/%\\\x00-\x1f\x7f-\xff]*)+\z}n.freeze
        BROKEN_ENCODING = /%(?!\h\h)|%2f|%5c|%00/i.freeze
        FORBIDDEN = /[\\\x00-\x1f\x7f]/.freeze
        WELL_KNOWN = ".well-known" # RFC 8615
        private_constant :SMALL_BYTES, :PATH_BYTES_LIMIT, :PLAIN, :BROKEN_ENCODING, :FORBIDDEN, :WELL_KNOWN, :DIGEST

        # Maximum number of remembered files, and maximum bytes of their contents.
        ENTRIES_LIMIT = 4096
        BYTES_LIMIT = 16 * 1024 * 1024
        # The uncompressed variant, compressed variants by coding, and the time to forget them.
        Entry = Struct.new(:plain, :coded, :until_s)
        private_constant :ENTRIES_LIMIT, :BYTES_LIMIT, :Entry

        # A file in one coding; `content` holds a small file's bytes.
        Variant = Struct.new(:name, :headers, :modified_s, :size, :content)

        # @return [String] the folder, absolute
        attr_reader :path
        # @return [String] the path without symbolic links, as at the start
        attr_reader :real_path
        # @return [String] "" or a prefix such as "/files"
        attr_reader :prefix

        # @param path [String] a folder
        # @param at [String] the URL path of the folder
        # @param index [Boolean] a path ending with "/" stands for its index.html
        # @param dot_files [Boolean] serves names with a leading "."; otherwise only /.well-known
        # @param symlinks [Boolean] symbolic links may lead out of the folder
        # @param precompressed [Boolean] sends .br, .zst or .gz files to clients that accept them
        # @param immutable [Boolean] lets clients keep files with a digest in their names
        # @param cache_control [String, nil] the cache-control of other files
        # @raise [ArgumentError] the folder does not exist
        def initialize(path, at: "/", index: false, dot_files: false, symlinks: false, precompressed: true, immutable: false,
                       cache_control: nil)
          @path = File.expand_path(path)
          raise ArgumentError, "there is no folder #{@path}" unless File.directory?(@path)

          @real_path = File.realpath(@path)
          @prefix = at.delete_suffix("/")
          raise ArgumentError, "#{at.inspect} is not a URL path: it begins with /" unless @prefix.empty? || @prefix.match?(%r{\A/[^?#]*\z})

          @index = index
          @dot_files = dot_files
          @symlinks = symlinks
          @precompressed = precompressed
          @immutable = immutable
          @cache_control = cache_control
          @folder = Folder.new(@path)
          forget
        end

        # Returns a URL path's file name without looking for the file.
        # @param url_path [String] percent-encoded, BINARY (PATH_INFO)
        # @return [String, nil] relative to the folder; nil: a forbidden name
        def name(url_path)
          unless @prefix.empty?
            return unless url_path.start_with?(@prefix)

            url_path = url_path.byteslice(@prefix.bytesize..)
          end
          return url_path.byteslice(1..) if PLAIN.match?(url_path)

          unusual_name(url_path)
        end

        # Opens a file; never waits for a disk on the loop.
        # @param name [String] relative to the folder, from {#name}
        # @return [OpenFile, nil] nil: the folder has no regular file of that name
        # @raise [SystemCallError] too many descriptors, a broken disk
        def open(name)
          folder = @folder.current or return
          file = OpenFile.beneath(folder, name, @symlinks, false)
          file = Offload.call { OpenFile.beneath(folder, name, @symlinks, true) } if file == false
          file
        rescue IOError # another fiber has replaced the folder
          retry unless @folder.closed?
        end

        # @param name [String] relative to the folder, from {#name}
        # @return [Boolean] whether there is such a file; false if only the disk could tell
        def known?(name)
          entry = @entries[name]
          return true if entry && Process.clock_gettime(Process::CLOCK_MONOTONIC) < entry.until_s
          folder = @folder.io or return false
          file = OpenFile.beneath(folder, name, @symlinks, false) or return false
          file.close
          true
        rescue SystemCallError, IOError
          false
        end

        # @param name [String] from {#name}
        # @param accepted [String, nil] Accept-Encoding
        # @param now_s [Float] Clock's
        # @yieldparam variant [Variant]
        # @yieldparam file [OpenFile, nil] nil: the content is in the variant
        # @return [Object, nil] the block's value; nil: no such file
        def find(name, accepted, now_s)
          entry = @entries[name]
          entry = remember(name, now_s) if entry.nil? || now_s >= entry.until_s
          return if entry.nil?

          coding = AcceptEncoding.choose(accepted, entry.coded.keys) unless entry.coded.empty? || accepted.nil?
          variant = coding ? entry.coded[coding] : entry.plain
          return yield(variant, nil) if variant.content

          file = open(variant.name) or return
          same = variant.size == file.size && variant.modified_s == file.modified_ns / 1_000_000_000
          variant = describe(variant.name, name, file, coding, entry.coded.any?) unless same
          yield variant, file
        end

        # Closes the folder. Afterwards no file is found.
        def close
          @folder.close
          forget
        end

        # Forgets all remembered files.
        def forget
          @entries = {}
          @bytes = 0
        end

        private

        def unusual_name(url_path)
          return if url_path.bytesize > PATH_BYTES_LIMIT || BROKEN_ENCODING.match?(url_path)

          url_path += "index.html" if @index && url_path.end_with?("/")
          name = url_path.gsub(/%\h\h/) { |code| code[1, 2].hex.chr }.force_encoding(Encoding::UTF_8)
          return if !name.valid_encoding? || FORBIDDEN.match?(name) || !name.start_with?("/")

          parts = name[1..].split("/", -1)
          return if parts.empty? || parts.any? { |part| part.empty? || %w[. ..].include?(part) }

          name[1..] if @dot_files || parts.drop(parts.first == WELL_KNOWN ? 1 : 0).none? { |part| part.start_with?(".") }
        end

        def remember(name, now_s)
          file = open(name) or return drop(name)
          coded = @precompressed && MediaTypes.compressible?(MediaTypes.of(name)) ? coded_variants(name) : {}
          keep(name, Entry.new(variant(name, name, file, nil, coded.any?), coded, now_s + REMEMBERED_S))
        ensure
          file&.close
        end

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

        def weight(entry) = [entry.plain, *entry.coded.values].sum { |variant| variant.content.nil? ? 0 : variant.size }

        def coded_variants(name)
          EXTENSIONS.each_with_object({}) do |(coding, extension), found|
            file = open("#{name}#{extension}") or next
            found[coding] = variant("#{name}#{extension}", name, file, coding, true)
          end
        end

        # Describes an open file, reads it if it is small, and closes it.
        def variant(path, name, file, coding, varies)
          described = describe(path, name, file, coding, varies)
          content = Body.read(file, 0, file.size) if file.size <= SMALL_BYTES
          described.content = content.freeze if content&.bytesize == file.size
          described
        ensure
          file.close
        end

        # Makes a variant. Its etag has time and size, because rewriting a file changes one of them.
        def describe(path, name, file, coding, varies)
          etag = %("#{file.modified_ns.to_s(36)}-#{file.size.to_s(36)}#{"-#{coding}" if coding}")
          modified_s = file.modified_ns / 1_000_000_000
          type = MediaTypes.of(name)
          headers = { "content-type" => type, "etag" => etag, "last-modified" => Time.at(modified_s).utc.strftime("%a, %d %b %Y %H:%M:%S GMT"),
                      "accept-ranges" => "bytes" }
          headers["x-content-type-options"] = "nosniff" if type.equal?(MediaTypes::UNKNOWN)
          headers["content-encoding"] = coding if coding
          headers["vary"] = "accept-encoding" if varies
          cache_control = @immutable && fingerprinted?(name) ? IMMUTABLE : @cache_control
          headers["cache-control"] = cache_control if cache_control
          Variant.new(path, headers.each_value(&:freeze).freeze, modified_s, file.size, nil)
        end

        # True for app-1a2b3c4d.js. A digest must have a digit: date-picker.js has only words.
        def fingerprinted?(name)
          match = FINGERPRINTED.match(name)
          !match.nil? && DIGEST.match?(match[0])
        end
      end
    end

    module Files
      # The open folder of a Files::Root. If the path leads to another folder, for example after a
      # deployment moved a symbolic link, opens that folder. Checks the path at most once in
      # {RECHECKED_S}. Reads no file.
      # @api private
      class Folder
        RECHECKED_S = 1.0

        attr_reader :io # the folder at the last check; nil if it did not exist, or after {#close}

        def initialize(path)
          @path = path
          @closed = false
          use(File.open(path))
          @until_s = 0.0
        end

        # Returns the open folder. Closes a former folder only after the new folder is open.
        def current
          now_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          return @io if now_s < @until_s

          @until_s = now_s + RECHECKED_S
          return @io if @io && OpenFile.leads_to?(@path, @io)

          fresh = Offload.call { exchanged(@identity) }
          use(fresh) if fresh
          @io
        rescue Errno::ENOENT, Errno::ENOTDIR, Errno::EACCES, Errno::ELOOP
          use(nil)
        end

        def closed? = @closed

        def close
          @closed = true
          @io&.close
          @io = nil
          @until_s = Float::INFINITY
        end

        private

        # Opens the path; returns nil if it still leads to the same folder.
        def exchanged(identity) = (File.open(@path) if identity_of(File.stat(@path)) != identity)

        def identity_of(stat) = [stat.dev, stat.ino]

        def use(fresh)
          return fresh&.close if @closed

          former, @io = @io, fresh
          @identity = fresh && identity_of(fresh.stat)
          former&.close
          fresh
        end
      end
    end
  end
end
