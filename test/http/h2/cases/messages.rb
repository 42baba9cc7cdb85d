# frozen_string_literal: true

# Cases: requests as HTTP/2 carries them (h2spec's http2/8). Read by cases.rb only.

H2Cases.define do
  wrong = stream_error(:protocol_error)
  method, scheme, path, authority = fields

  section "http2/8.1" do
    expect wrong, "trailers without END_STREAM", post, data(1, "test", end_stream: false), headers(1, [%w[x-test ok]], end_stream: false)
  end

  section "http2/8.1.2" do
    expect wrong, "a field's name in capitals", get(1, [%w[X-TEST ok]])
  end

  section "http2/8.1.2.1" do
    expect wrong, "an unknown pseudo-header field", get(1, [%w[:test ok]])
    expect wrong, "a pseudo-header field of responses", get(1, [%w[:status 200]])
    expect wrong, "a pseudo-header field in trailers", post, data(1, "test", end_stream: false), headers(1, [%w[:method POST]])
    expect wrong, "a pseudo-header field behind others", headers(1, [%w[x-test ok], *fields])
  end

  section "http2/8.1.2.2" do
    expect wrong, "a field that is about the connection", get(1, [%w[connection keep-alive]])
    expect wrong, "TE other than trailers", get(1, [%w[trailers test], ["te", "trailers, deflate"]])
  end

  section "http2/8.1.2.3" do
    expect wrong, "an empty :path", headers(1, [method, scheme, [":path", ""], authority])
    expect wrong, "no :method", headers(1, [scheme, path, authority])
    expect wrong, "no :scheme", headers(1, [method, path, authority])
    expect wrong, "no :path", headers(1, [method, scheme, authority])
    expect wrong, ":method twice", get(1, [method])
    expect wrong, ":scheme twice", get(1, [scheme])
    expect wrong, ":path twice", get(1, [path])
  end

  section "http2/8.1.2.6" do
    expect wrong, "a content-length that is not that of the DATA", post(1, [%w[content-length 1]]), data(1, "test")
    expect wrong, "a content-length that is not that of several DATA", post(1, [%w[content-length 1]]),
           data(1, "test", end_stream: false), data(1, "test")
  end

  section "http2/8.2" do
    expect connection_error(:protocol_error), "PUSH_PROMISE from a client", push_promise(1, 3, fields)
  end
end
