# frozen_string_literal: true

# Three shops that are slow to tell the price of a vorpal blade. They stand for the slow services of
# every app: a database, a payment provider, another team. The comparison asks them over HTTP.

require "json"

module Showcase
  # Name, path on this server, time to answer, price.
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
