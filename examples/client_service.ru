# frozen_string_literal: true

# The service that the programs of docs/client.md ask: gyre serve examples/client_service.ru

require "json"

PRICES = { "red" => "3", "blue" => "4", "green" => "5" }.freeze

run lambda { |env|
  query = env["QUERY_STRING"].to_s
  text = lambda { |*parts| [200, { "content-type" => "text/plain" }, parts] }
  case [env["REQUEST_METHOD"], env["PATH_INFO"]]
  in ["GET", "/hello"] then text.call("hello")
  in ["GET", "/price"] then text.call(PRICES.fetch(query[/\w+\z/]))
  in ["GET", "/rows"] then text.call(*Array.new(4600) { |number| "row #{number}\n" })
  in ["GET", "/wait"]
    sleep query.to_f
    text.call("waited #{query} s")
  in ["GET", "/orders"] then [200, { "content-type" => "application/json" }, [JSON.generate(query.split("&").to_h { |pair| pair.split("=") })]]
  in ["POST", "/orders"] then [201, {}, []]
  in [_, "/echo"] then text.call(env["rack.input"].read)
  else [404, {}, []]
  end
}
