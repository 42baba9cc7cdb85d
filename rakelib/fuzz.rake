# frozen_string_literal: true

# The fuzzers: fuzz:<parser>, each bounded by SECONDS (30) and repeatable by SEED. They build into
# tmp/fuzz, and need a C compiler.

# How a fuzzer in C is built and run.
module GyreFuzz
  SANITIZERS = %w[-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer].freeze

  extend Rake::FileUtilsExt

  module_function

  def seconds
    Integer(ENV.fetch("SECONDS", "30"))
  end

  def seed
    @seed ||= Integer(ENV.fetch("SEED") { rand(1_000_000) })
  end

  # A clang that has libFuzzer, or nil.
  def clang
    %w[clang clang-18 clang-16 clang-15 clang-14].find do |name|
      links?(name, "-fsanitize=fuzzer,address",
        "int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return (int)n * !d; }")
    end
  end

  # The sanitizers that this compiler can do.
  def sanitizers(compiler)
    links?(compiler, *SANITIZERS, "int main(void) { return 0; }") ? SANITIZERS : []
  end

  def links?(compiler, *flags, source)
    IO.popen([compiler, *flags, "-x", "c", "-", "-o", File::NULL], "w", err: File::NULL) { |io| io.write(source) }
    $?.success?
  rescue SystemCallError
    false
  end

  # HTTP/2's frames in a form that keeps them whole when it is changed (fuzz/http2_session_fuzz.c).
  def frames(bytes)
    frames = +"".b
    while bytes.bytesize >= 9
      high, low, type, flags, stream = bytes.unpack("nCCCN")
      payload = bytes.byteslice(9, [high << 8 | low, 255].min)
      frames << [type, flags, stream & 255, payload.bytesize].pack("C4") << payload.b
      bytes = bytes.byteslice((9 + (high << 8 | low))..) || ""
    end
    frames
  end

  # Builds the fuzzer and runs it on a folder of inputs; libFuzzer adds what it finds to the folder.
  def run(name, sources, inputs, seconds)
    folder = File.dirname(inputs)
    program = File.join(folder, name)
    flags = %w[-std=gnu11 -O1 -g -Iext/gyre -Itest/c -o] + [program, "fuzz/#{name}.c", *sources]
    if (compiler = clang)
      sh(compiler, "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined", *flags)
      sh(program, inputs, "-max_total_time=#{seconds}", "-max_len=4096", "-seed=#{seed}", "-artifact_prefix=#{folder}/",
        "-print_final_stats=1")
    else
      compiler = ENV["CC"] || "cc"
      sh(compiler, *sanitizers(compiler), *flags, "fuzz/mutate.c")
      sh(program, inputs, seconds.to_s, seed.to_s) { |done, _| done || abort("seed #{seed}; the input is #{folder}/current") }
    end
  end

  # Half of the time the C code alone, half of it C against Ruby.
  def alone_and_against_ruby(name, inputs, script, environment = {})
    half = [seconds / 2, 1].max
    run("#{name}_fuzz", GyreTest::PlainC::PROGRAMS.fetch("#{name}_test"), inputs, half)
    sh(environment, RbConfig.ruby, "-Ilib", "-Itest", script, half.to_s, seed.to_s)
  end
end

namespace :fuzz do
  desc "Fuzz the HTTP/1 parsers: C alone with sanitizers, then C against Ruby (SECONDS, SEED)"
  task :http1 do
    $LOAD_PATH.unshift("lib", "test")
    require_relative "../test/http/cases"
    inputs = File.join("tmp", "fuzz", "http1", "inputs")
    mkdir_p inputs, verbose: false
    HTTPCases::ALL.each_with_index do |example, index|
      next if example.input.bytes.bytesize > 2000

      File.binwrite(File.join(inputs, format("case-%04d", index)),
        (example.input.kind == "b" ? "\x01" : "\x00").b + example.input.bytes)
    end
    GyreFuzz.alone_and_against_ruby("http1_parser", inputs, "fuzz/http1_differential.rb")
  end

  desc "Fuzz the client's parser of responses in C with sanitizers (SECONDS, SEED)"
  task :reply do
    inputs = File.join("tmp", "fuzz", "reply", "inputs")
    mkdir_p inputs, verbose: false
    heads = ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.0 301\r\nConnection: keep-alive, close\r\n\r\n",
             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n2\r\nab\r\n0\r\n\r\n", "HTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\n"]
    heads.each_with_index do |bytes, index|
      (0..3).each { |limits| File.binwrite(File.join(inputs, "case-#{index}-#{limits}"), [limits, 20].pack("CC") + bytes) }
    end
    sources = %w[reply parser fields].map { |name| "ext/gyre/http/h1/#{name}.c" } + ["ext/gyre/http/head.c"]
    GyreFuzz.run("http1_reply_fuzz", sources, inputs, GyreFuzz.seconds)
  end

  desc "Fuzz HTTP/2's frames and streams in C with sanitizers (SECONDS, SEED)"
  task http2: :compile do
    $LOAD_PATH.unshift("lib", "test")
    require_relative "../test/http/h2/cases"
    platform = GyreTest::PlainC.platform_flags
    next puts("this build has no HTTP/2") unless platform&.include?("-lnghttp2")

    inputs = File.join("tmp", "fuzz", "http2", "inputs")
    mkdir_p inputs, verbose: false
    H2Cases.all.each_with_index do |example, index|
      bytes = example.steps.grep(String).join
      frames = GyreFuzz.frames(bytes)
      { "bare" => "\x01\x07#{bytes}", "small" => "\x04\x03#{frames}", "frames" => "\0\x05#{frames}" }.each do |kind, input|
        File.binwrite(File.join(inputs, format("case-%04d-%s", index, kind)), input.b) if input.bytesize < 2000
      end
    end
    GyreFuzz.run("http2_session_fuzz", GyreTest::PlainC::PROGRAMS.fetch("http2_session_test") + platform, inputs, GyreFuzz.seconds)
  end

  desc "Fuzz the PROXY protocol's header in C with sanitizers (SECONDS, SEED)"
  task :proxy do
    inputs = File.join("tmp", "fuzz", "proxy", "inputs")
    mkdir_p inputs, verbose: false
    ["PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\nGET", "PROXY TCP6 2001:db8::1 ::1 1 2\r\n", "PROXY UNKNOWN x\r\n",
     "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f\xc0\0\2\1\xc6\x33\x64\2\x12\x34\x01\xbb\x04\0\0", "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
     "\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24#{"\x20\1" * 18}"].each_with_index do |bytes, index|
      (1..3).each { |versions| File.binwrite(File.join(inputs, "case-#{index}-#{versions}"), [versions].pack("C") + bytes.b) }
    end
    GyreFuzz.run("proxy_protocol_fuzz", ["ext/gyre/net/proxy_protocol.c"], inputs, GyreFuzz.seconds)
  end

  desc "Fuzz the frames of WebSockets in C with sanitizers (SECONDS, SEED)"
  task websocket: :compile do
    $LOAD_PATH.unshift("lib", "test")
    require_relative "../test/websocket/autobahn_cases"
    require "zlib"
    platform = GyreTest::PlainC.platform_flags
    next puts("this build has no zlib") unless platform&.include?("-lz")

    inputs = File.join("tmp", "fuzz", "websocket", "inputs")
    mkdir_p inputs, verbose: false
    GyreTest::AutobahnCases::ALL.each_with_index do |example, index|
      next if example.bytes.bytesize > 2000

      (0..2).each do |compressing|
        File.binwrite(File.join(inputs, format("case-%03d-%d", index, compressing)), [21 + compressing].pack("C") + example.bytes)
      end
    end
    deflate = Zlib::Deflate.new(Zlib::DEFAULT_COMPRESSION, -Zlib::MAX_WBITS)
    messages = ["häh " * 60, "häh " * 60, "x" * 600, "\xff".b].map do |message|
      GyreTest::WebSocketServing.frame(1, deflate.deflate(message, Zlib::SYNC_FLUSH)[0..-5], reserved: 4)
    end
    messages << GyreTest::WebSocketServing.frame(2, deflate.finish << 0, reserved: 4)
    (0..4).each do |from|
      bytes = messages.drop(from).join
      (1..2).each { |compressing| File.binwrite(File.join(inputs, "compressed-#{from}-#{compressing}"), [21 + compressing].pack("C") + bytes) }
    end
    GyreFuzz.run("websocket_input_fuzz", GyreTest::PlainC::PROGRAMS.fetch("websocket_input_test") + platform, inputs, GyreFuzz.seconds)
  end

  desc "Fuzz memcached's wire: C alone with sanitizers, then C against Ruby (SECONDS, SEED)"
  task :memcached do
    $LOAD_PATH.unshift("lib", "test")
    require_relative "../test/memcached/verdicts"
    inputs = File.join("tmp", "fuzz", "memcached", "inputs")
    mkdir_p inputs, verbose: false
    MemcachedVerdicts.inputs.each_with_index do |input, index|
      File.binwrite(File.join(inputs, format("case-%03d", index)), input.kind + input.bytes) if input.bytes.bytesize <= 500
    end
    GyreFuzz.alone_and_against_ruby("memcached_wire", inputs, "fuzz/memcached_differential.rb")
  end

  desc "Fuzz DNS messages, and responses from zones, in C with sanitizers (SECONDS, SEED)"
  task dns: :compile do
    $LOAD_PATH.unshift("lib", "test")
    require "dns/samples"
    inputs = File.join("tmp", "fuzz", "dns", "inputs")
    mkdir_p inputs, verbose: false
    DNSSamples.messages(Random.new(1), 60).each_with_index { |bytes, index| File.binwrite(File.join(inputs, format("case-%03d", index)), bytes) }
    half = [GyreFuzz.seconds / 2, 1].max
    GyreFuzz.run("dns_wire_fuzz", GyreTest::PlainC::PROGRAMS.fetch("dns_wire_test"), inputs, half)
    GyreFuzz.run("dns_respond_fuzz", %w[wire zone respond].map { |name| "ext/gyre/dns/#{name}.c" }, inputs, half)
  end

  desc "Read random and changed DNS messages by Gyre and by dnsruby, whose gem it installs in tmp/fuzz (SECONDS, SEED)"
  task dnsruby: :compile do
    gems = File.join(GyreBuild.root, "tmp", "fuzz", "dnsruby")
    installed = Dir[File.join(gems, "gems", "dnsruby-*")].any? ||
                system(RbConfig.ruby, "-S", "gem", "install", "dnsruby", "--no-document", "--quiet", "--install-dir", gems, out: File::NULL)
    next puts("dnsruby could not be installed: SKIPPED") unless installed

    sh(GyreSuite.unbundled.merge("GEM_PATH" => [gems, *Gem.path].join(File::PATH_SEPARATOR)),
      RbConfig.ruby, "-Ilib", "-Itest", "fuzz/dns_differential.rb", GyreFuzz.seconds.to_s, GyreFuzz.seed.to_s)
  end

  desc "Fuzz the log's ingest: C alone with sanitizers, then C against Ruby (SECONDS, SEED)"
  task log: :compile do
    $LOAD_PATH.unshift("lib", "test")
    require_relative "../test/log/cases"
    inputs = File.join("tmp", "fuzz", "log", "inputs")
    mkdir_p inputs, verbose: false
    LogCases::ALL.each_with_index do |example, index|
      next if example.bytes.bytesize > 2000

      kind = %i[analogger records syslog].index(example.kind) | LogVerdicts::FRAMINGS.index(example.framing) << 2
      File.binwrite(File.join(inputs, format("case-%04d", index)), [kind].pack("C") + example.bytes)
    end
    GyreFuzz.alone_and_against_ruby("log_ingest", inputs, "fuzz/log_differential.rb", "TZ" => "UTC")
  end
end
