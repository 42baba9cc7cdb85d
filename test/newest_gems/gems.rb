# frozen_string_literal: true

# The tests' own gems, and the newest releases of the libraries that a Ruby brings along and an
# application may update: what Gyre's scheduler, servers and logs meet of them. A bundle of its own
# for `rake test:newest_gems`; all other tests run on what Ruby has.
eval_gemfile "../../Gemfile"

%w[cgi delegate erb io-console json logger monitor net-http net-protocol openssl optparse resolv securerandom stringio strscan
   tempfile time timeout uri zlib].each { |name| gem name }
gem "http-2" # a client of HTTP/2 that shares nothing with libnghttp2
gem "faraday"
gem "opentelemetry-instrumentation-rack"
gem "opentelemetry-sdk"
gem "ruby-openai" # streams over Faraday
gem "vcr"
gem "webmock"
