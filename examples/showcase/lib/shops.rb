# frozen_string_literal: true

# Three shops that take their time before they answer what a vorpal blade costs. They stand for the
# slow services that every app has to ask: a database, a payment provider, another team. The
# comparison asks them over HTTP.

require "json"

module Showcase
  # A shop: its name, its path on this server, how long it takes, and its price.
  Shop = Struct.new(:name, :path, :delay_s, :price, keyword_init: true) do
    def call(_env)
      sleep delay_s
      [200, { "content-type" => "application/json" }, [JSON.generate(shop: name, price: price)]]
    end
  end

  SHOPS = [
    Shop.new(name: "Tumtum Trading", path: "/shops/tumtum", delay_s: 1.2, price: "24.90"),
    Shop.new(name: "Brillig & Sons", path: "/shops/brillig", delay_s: 1.5, price: "21.40"),
    Shop.new(name: "Borogove", path: "/shops/borogove", delay_s: 1.8, price: "23.15")
  ].freeze
end
