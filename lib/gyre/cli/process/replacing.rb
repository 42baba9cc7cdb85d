# frozen_string_literal: true

# Replaces a small file as a whole: pidfile, state file. Follows no symbolic link.

require "gyre/errors"

module Gyre
  module CLI
    module Replacing
      # `what`: the content's noun for StartError.
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
