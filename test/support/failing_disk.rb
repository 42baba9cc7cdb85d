# frozen_string_literal: true

# A disk whose writes fail: a file system without a journal in a sparse image on a tmpfs, which is
# then filled up. Tests run a program with it (GyreTest::FailingDisk.run) in a mount namespace of
# its own, so that nothing stays mounted whatever becomes of the program. It needs root, unshare(1),
# mkfs.ext4 and loop devices.

require "tmpdir"

module GyreTest
  # In the program; the class methods are for the test.
  class FailingDisk
    PROGRAMS = %w[unshare mkfs.ext4 mount umount].freeze
    TMPFS = "size=12m"
    IMAGE_BYTES = 200 << 20

    class << self
      # Returns why there can be none here.
      def missing
        return "a disk that fails needs root" unless Process.uid.zero?

        names = PROGRAMS.reject { |name| ENV["PATH"].split(":").any? { |folder| File.executable?(File.join(folder, name)) } }
        return "a disk that fails needs #{names.join(", ")}" if names.any?

        @missing = probe unless defined?(@missing)
        @missing
      end

      # Returns the command that runs a program with it, for Process.spawn.
      def around(environment, *command)
        [environment, "unshare", "-m", "--propagation", "private", *command]
      end

      private

      def probe
        Dir.mktmpdir do |folder|
          code = "require #{__FILE__.dump}; GyreTest::FailingDisk.new(ARGV[0])"
          out = IO.popen([*around({}, RbConfig.ruby, "-e", code, folder), { err: %i[child out] }], &:read)
          $?.success? ? nil : "this machine mounts no image: #{out.lines.first.to_s.strip}"
        end
      end
    end

    # Returns the folder on it.
    attr_reader :folder

    def initialize(place)
      @place = place
      @back, @folder, @later = %w[back disk later].map { |name| File.join(place, name).tap { |path| Dir.mkdir(path) } }
      run("mount", "-t", "tmpfs", "-o", TMPFS, "tmpfs", @back)
      File.open(image, "w") { |file| file.truncate(IMAGE_BYTES) }
      run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard", "-N", "512", image)
      run("mount", "-o", "loop,errors=continue", image, @folder)
    end

    # From now on its writes fail, except to blocks that have been written.
    def break
      # All that is there so far is on it.
      run("sync", "-f", @folder)
      File.open(filling, "wb") { |file| loop { file.syswrite("\0" * 4096) } }
    rescue Errno::ENOSPC
      nil
    end

    # It works again.
    def mend
      File.unlink(filling)
    end

    # What stands there as if the power had failed now: what is on the disk, and nothing of the page
    # cache.
    def after_a_power_failure
      copy = File.join(@place, "copy")
      run("cp", "--sparse=always", image, copy)
      run("mount", "-o", "loop,ro", copy, @later)
      begin
        yield @later
      ensure
        run("umount", @later)
        File.unlink(copy)
      end
    end

    # What stands in a file then; nothing when it is not there.
    def read_after_a_power_failure(name)
      after_a_power_failure { |folder| File.binread(File.join(folder, name)) }
    rescue Errno::ENOENT
      ""
    end

    private

    def image
      File.join(@back, "image")
    end

    def filling
      File.join(@back, "filling")
    end

    def run(*command)
      out = IO.popen([*command, { err: %i[child out] }], &:read)
      raise "#{command.join(" ")}: #{out}" unless $?.success?
    end
  end
end
