# frozen_string_literal: true

# What a request sends: queries, forms, multipart bodies and bodies from sources of all kinds.

require "test_helper"
require "gyre/http/client"
require "stringio"

class HTTPClientRequestTest < Minitest::Test
  Client = Gyre::HTTP::Client

  # Reads like an IO; may know its size, but cannot seek.
  class Download
    attr_reader :size

    def initialize(text, size) = (@io, @size = StringIO.new(text), size)
    def read(...) = @io.read(...)
    def pos = @io.pos
    def rewind = @io.rewind
  end

  APP = lambda do |env|
    next [307, { "location" => "/end" }, []] if env["PATH_INFO"] == "/moved"

    [200, { "x-query" => env["QUERY_STRING"], "x-length" => env["CONTENT_LENGTH"].to_s }, [env["rack.input"].read]]
  end

  def test_forms_and_queries_nest_as_rack_reads_them
    pairs = { a: { "b" => 1, "c" => [2, 3] }, "d[]" => %w[x], e: [{ f: nil }], g: "1&2" }
    text = "a[b]=1&a[c][]=2&a[c][]=3&d[]=x&e[][f]&g=1%262"
    assert_equal text, escaped(client.post("/", form: pairs).body)
    assert_equal text, escaped(client.get("/", query: pairs)["x-query"])
    assert_equal "a=1&a=2", client.post("/", form: [%w[a 1], %w[a 2]]).body
    assert_equal "%C3%A4=%C3%BC", client.post("/", form: { "\u00e4".encode("iso-8859-1") => "\u00fc".encode("windows-1252") }).body
    assert_raises(ArgumentError) { client.get("/", query: "a=1") }
  end

  def test_each_element_of_an_array_is_a_part
    files = [StringIO.new("one"), StringIO.new("two")]
    assert_equal [["files[]", "one"], ["files[]", "two"]], parts("files[]" => files)
    assert_equal [["tags[]", "red"], ["tags[]", "blue"]], parts("tags" => %w[red blue])
    assert_equal [["user[name]", "Ada"], ["user[age]", "7"]], parts("user" => { "name" => "Ada", age: 7 })
    assert_equal [["file", "one"]], parts("file" => { "content" => StringIO.new("one"), "filename" => "a.txt" })
    assert_equal [["\u00e4", "x"]], parts("\u00e4".encode("iso-8859-1") => "x")
    assert_raises(ArgumentError) { parts("file" => { content: [1] }) }
  end

  # Names of old file systems are in no encoding.
  def test_names_in_several_encodings_come_together
    names = ["\u00e4", "\xE4".b, "\u00e4".encode("utf-16le")]
    body = names.product(names, names).map do |name, file, type|
      client.post("/", multipart: { name => { content: "x", filename: file, content_type: type }, "a" => { name => { file => type } } }).body
    end
    assert_includes body[1], "name=\"\u00e4\"; filename=\"\u00e4\"\r\ncontent-type: \xE4".b
    assert_includes body[3], "name=\"a[\u00e4][\xE4]\"\r\n\r\n\u00e4\r\n".b
    assert_equal "%C3%A4%5B%E4%5D=%E4", client.post("/", form: { names[0] => { names[1] => names[1] } }).body
  end

  def test_a_part_may_be_a_pipe
    reader, writer = IO.pipe
    writer << "from a pipe"
    writer.close
    assert_equal [["file", "from a pipe"]], parts("file" => reader)
  ensure
    reader&.close
  end

  def test_a_source_may_lack_size_or_seek
    [nil, 4].each do |size|
      response = client.put("/", Download.new("data", size))
      assert_equal ["data", "data"], [response.body, client.post("/", multipart: { file: Download.new("data", size) }).body[/data/]]
      assert_equal "data", client.put("/moved", Download.new("data", 4)).body
    end
    error = assert_raises(Client::RedirectError) { client.put("/moved", Download.new("data", nil)) }
    assert_match(/cannot be sent again/, error.message)
    begun = Download.new("more data", 9).tap { |source| source.read(5) }
    assert_equal "data", client.put("/", begun).body
  end

  private

  def client = @client ||= Client.new(APP)
  def escaped(text) = text.gsub("%5B", "[").gsub("%5D", "]")

  def parts(fields)
    body = client.post("/", multipart: fields).body
    body.force_encoding(Encoding::UTF_8).scan(/name="([^"]*)"[^\n]*\r\n(?:content-type[^\n]*\r\n)?\r\n(.*?)\r\n--/m)
  end
end
