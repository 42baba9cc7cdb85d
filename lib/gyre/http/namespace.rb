# frozen_string_literal: true

# Gyre::HTTP's own methods, which are those of a client. Loaded by the server's and the client's
# files; the client itself loads when one of the methods is called.

require "gyre/http/h2"
require "gyre/parts"

module Gyre
  module HTTP
    extend Parts

    class << self
      # @return [Client] the client of the methods below; each Ractor has its own
      def client = Ractor.current[:gyre_http_client] ||= Client.new

      # @!method get(url, **options)
      #   As {Client#get}.
      # @!method head(url, **options)
      #   As {Client#head}.
      # @!method post(url, **options)
      #   As {Client#post}.
      # @!method put(url, **options)
      #   As {Client#put}.
      # @!method patch(url, **options)
      #   As {Client#patch}.
      # @!method delete(url, **options)
      #   As {Client#delete}.
      # @!method fan_out(urls, **options)
      #   As {Client#fan_out}.
      %i[get head post put patch delete fan_out].each do |name|
        define_method(name) { |*arguments, **options, &block| client.public_send(name, *arguments, **options, &block) }
      end
    end
  end
end
