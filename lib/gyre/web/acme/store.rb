# frozen_string_literal: true

# The folder of certificates by ACME, one for each authority: the account's key, for each name a PEM
# with certificate and key, and the state of its renewal. Processes and machines may share it: files
# are replaced as a whole, and a lock lets one of them order.

require "gyre/web/acme/challenge"

module Gyre
  module Web
    module ACME
      class Store
        # File systems that end with their container or machine.
        FLEETING = %w[overlay aufs tmpfs ramfs].freeze

        attr_reader :names, :folder

        # Returns the usual folder. `user`: whom the process becomes, or nil.
        def self.folder(user = nil)
          given = ENV.values_at("STORAGE_PATH", "STATE_DIRECTORY").map { |path| path.to_s[/\A[^:]+/] }
          return given[0] if given[0]
          return "storage/acme" if File.directory?("storage") # of Rails
          return File.join(given[1] || "/var/lib/gyre", "acme") if given[1] || user

          state = ENV["XDG_STATE_HOME"].to_s
          File.join(state.start_with?("/") ? state : File.join(Dir.home, ".local/state"), "gyre/acme")
        end

        # `folder`: of all authorities; `directory`: the authority's URL; `account_key`: file of a
        # PEM, or nil for one in the folder.
        def initialize(names, folder, directory, account_key = nil)
          @names = names.uniq
          @parent = File.expand_path(folder)
          @folder = File.join(@parent, directory.sub(%r{\Ahttps?://}, "").gsub(/[^\w.-]+/, "_"))
          @account_key = account_key || file("account.pem")
          @missing = @names
        end

        # Makes what is missing: the account's key and, for each name, a self-signed certificate.
        # Takes over those of Thruster. Raises StartError.
        def prepare(log)
          FileUtils.mkdir_p(@folder, mode: 0o700)
          lock("start", File::LOCK_EX) do
            write("account.pem", former("acme_account+key") || Key.generate) if @account_key == file("account.pem") && !File.exist?(@account_key)
            key
            @names.reject { |name| parse(read(path(name))) }.each { |name| make(name, log) }
          end
          log.info("  self-signed until the first certificate comes: #{missing.join(", ")}") if missing.any?
        rescue SystemCallError => error
          raise StartError, "acme: #{error.message.sub(/ @ \w+/, "")}. This user must be able to write in #{@parent}; acme_folder names another"
        end

        # Returns settings for TLSContexts, whose files exist after {#prepare}.
        def certificates = @names.map { |name| { names: [name], cert: path(name), key: path(name) } }

        def key = @key ||= Key.new(File.read(@account_key))

        # Returns the authority's certificate, or nil before the first one.
        def certificate(name) = parse(read(path(name)))&.then { |found| found unless found.issuer == found.subject }

        # Returns the names whose certificate is still self-signed.
        def missing = @missing = @missing.reject { |name| certificate(name) }

        # Returns why no client should be sent here yet, or nil.
        def unready = ("the certificate is still missing: #{missing.join(", ")}" if missing.any?)

        # Replaces a file as a whole, so that readers find the former or the new one even after a
        # crash.
        def write(name, text)
          new = file(".#{name}.#{Process.pid}")
          File.open(new, File::WRONLY | File::CREAT | File::TRUNC | File::NOFOLLOW, 0o600) { |io| io.write(text) && io.fsync }
          File.rename(new, file(name))
          File.open(@folder, &:fsync)
        end

        def path(name) = file("#{name}.pem")

        # Keeps the identity that proves `name` by tls-alpn-01, which all servers with this folder
        # show; removes it after the challenge.
        def challenge(name, proof, wanted)
          wanted ? write("#{name}.challenge", Challenge.pem(name, proof)) : FileUtils.rm_f(file("#{name}.challenge"))
        end

        # Returns the state of a name's renewal, which Keeper writes.
        def state(name) = JSON.parse(read(file("#{name}.json")) || "{}")

        # Changes when a certificate does.
        def stamp = @names.map { |name| File.stat(path(name)).then { |stat| [stat.ino, stat.mtime] } }

        # Yields if no other process orders; returns whether it did. The kernel frees the lock of a
        # process that dies.
        def lock(name = "order", how = File::LOCK_EX | File::LOCK_NB)
          File.open(file("#{name}.lock"), File::RDWR | File::CREAT, 0o600) { |file| file.flock(how) && (yield || true) }
        end

        # Returns the kind of file system if its files will be lost, or nil. `table`: see
        # proc_pid_mountinfo(5).
        def fleeting(table = "/proc/self/mountinfo")
          folder = @folder
          folder = File.dirname(folder) until File.exist?(folder)
          folder = File.realpath(folder)
          mounts = File.foreach(table).map { |line| line.split(" - ").then { |before, after| [before.split[4], after.split.first] } }
          above = mounts.select { |point, _| point == "/" || "#{folder}/".start_with?("#{point}/") }
          kind = above.max_by.with_index { |(point, _), index| [point.size, index] }&.last
          kind if FLEETING.include?(kind)
        rescue SystemCallError
          nil # not Linux
        end

        private

        def make(name, log)
          log.error("acme: #{path(name)} has no certificate with its key: replaced") if File.exist?(path(name))
          kept = former(name)
          write("#{name}.pem", parse(kept) ? kept : DevelopmentCertificate.new(hosts: [name], folder: "").make)
        end

        def file(name) = File.join(@folder, name.sub("*", "_"))

        def read(path) = (File.binread(path) if File.file?(path))

        # Returns the content of Thruster's file, or nil.
        def former(name) = read(File.join(@parent, name)) || read(File.join(@parent, "../thruster", name))

        # Returns the certificate of a PEM that has its key too, or nil.
        def parse(pem)
          certificate = pem && OpenSSL::X509::Certificate.new(pem)
          certificate if certificate&.check_private_key(OpenSSL::PKey.read(pem))
        rescue OpenSSL::OpenSSLError
          nil
        end
      end
    end
  end
end
