# frozen_string_literal: true

# Explains the errors of a server that cannot listen or open a file, with advice.

module Gyre
  module CLI
    module ListenErrors
      module_function

      # `port`, `host`, `bind`: flags that the advice names for choosing another address; without
      # them there is none.
      def explain(error, port: nil, host: nil, bind: "--bind")
        tried = error.message[/ - (.*)\z/m, 1] or return error.message
        "#{tried}: #{error.class.new.message.downcase}#{advice(error, tried, port, host, bind) if port}"
      end

      def advice(error, tried, port, host, bind)
        number = tried[/tcp:.*:(\d+)\z/, 1]
        case error
        when Errno::EADDRINUSE
          ". Choose another with #{number ? port : bind}, or stop the server that holds it" \
          "#{"; `ss -ltnp 'sport = :#{number}'` shows which process does" if number}"
        when Errno::EACCES
          return folder(tried) unless number

          number.to_i < 1024 ? ". Ports below 1024 are for root: choose another with #{port}" : ". Choose another with #{port}"
        when Errno::EADDRNOTAVAIL then ". This machine has no such address: choose another with #{host}"
        when Errno::ENOENT        then tried.include?("unix:") ? ". Make its folder first, or choose another with #{bind}" : nil
        when Errno::EEXIST        then ", and is not a socket. Remove it, or choose another with #{bind}"
        end
      end

      def folder(tried)
        folder = File.dirname(File.expand_path(tried[%r{(?:unix://|\Aopen )([^?]*)}, 1] || tried))
        ". #{File.writable?(folder) ? "Its file belongs to another user" : "This user may not write in #{folder}"}"
      end
    end
  end
end
