# frozen_string_literal: true

# Replaces a small file, such as a pidfile or state file, as a whole. Follows no symbolic link.

require "gyre/errors"

module Gyre
  module CLI
    module Replacing
      # `what`: the content's name in the message of StartError.
      def self.write(path, text, what, **options)
        fresh = "#{path}.#{Process.pid}"
        File.delete(fresh) if File.symlink?(fresh) || File.exist?(fresh) # of a former process with this number, or a symlink
        File.write(fresh, text, mode: File::WRONLY | File::CREAT | File::EXCL, **options)
        File.rename(fresh, path)
      rescue SystemCallError => error
        raise StartError, "#{path}: #{what} cannot be written: #{error.class.new.message.downcase}"
      end
    end
  end
end
