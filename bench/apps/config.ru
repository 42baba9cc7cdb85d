# frozen_string_literal: true

# The Rack app that every Ruby server runs in bench/http: one lambda, no middleware, answers made beforehand.
# nginx gives the same answers from its own configuration (bench/support/nginx.rb). Bench::Answers checks them.

hello = "Hello from the benchmark.\n"
small = "x" * 12_000
large = "x" * 12_000_000

run(lambda do |env|
  case env["PATH_INFO"]
  when "/" then [200, { "content-type" => "text/plain", "content-length" => "26" }, [hello]]
  when "/sleep/0.1"
    sleep 0.1
    [200, { "content-type" => "text/plain", "content-length" => "26" }, [hello]]
  when "/sleep/1"
    sleep 1
    [200, { "content-type" => "text/plain", "content-length" => "26" }, [hello]]
  when "/work" # more than a millisecond of a processor
    count = 0
    count += 1 while count < 2_000_000
    [200, { "content-type" => "text/plain", "content-length" => "26" }, [hello]]
  when "/12k" then [200, { "content-type" => "text/plain", "content-length" => "12000" }, [small]]
  when "/12m" then [200, { "content-type" => "text/plain", "content-length" => "12000000" }, [large]]
  else [404, { "content-type" => "text/plain", "content-length" => "10" }, ["Not found\n"]]
  end
end)
