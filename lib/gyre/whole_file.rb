# frozen_string_literal: true

# Replaces a small file as a whole, so that readers find the former or the new content. Used for
# pidfile, state file, compressed files and the certificate for development.

require "securerandom"

module Gyre
  module WholeFile
    module_function

    # Follows no symbolic link. Threads and processes, which may have the same number in other
    # containers, may replace a file at once: the last one's stays. Leaves the former file after an
    # error. Raises SystemCallError.
    def replace(path, content, **options)
      fresh = "#{path}.#{SecureRandom.hex(8)}"
      File.write(fresh, content, mode: File::WRONLY | File::CREAT | File::EXCL | File::BINARY, **options)
      File.rename(fresh, path)
    rescue SystemCallError
      File.delete(fresh) if File.exist?(fresh)
      raise
    end
  end
end
