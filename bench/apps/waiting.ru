# frozen_string_literal: true

# The slow server of bench/client: waits for as many seconds as the query says.
run lambda { |env|
  seconds = env["QUERY_STRING"].to_f
  sleep seconds if seconds.positive?
  [200, { "content-type" => "text/plain", "content-length" => "2" }, ["ok"]]
}
