# frozen_string_literal: true

# The client against Debian's Apache: `rake test:apache` installs and asks it.

require "test_helper"
require "gyre/http/client"
require "http/serving"
require "tmpdir"

class HTTPClientApacheTest < Minitest::Test
  def test_apache_over_http1_tls_and_http2
    apache = need_program("apache2")
    Dir.mktmpdir("gyre") do |folder|
      File.chmod(0o755, folder)
      plain, tls = Array.new(2) { free_port }
      pid = spawn(apache, "-X", "-f", configure(folder, plain, tls), err: "#{folder}/log", out: "#{folder}/log")
      eventually(within_s: 30) { TCPSocket.open("127.0.0.1", tls, &:close) || true rescue nil }
      [["http", plain, "HTTP/1.1", {}], ["https", tls, "HTTP/2", {}], ["https", tls, "HTTP/1.1", { http2: false }],
       ["http", plain, "HTTP/2", { http2: true }]].each do |scheme, port, protocol, options|
        context = Gyre::TLS.client(verify: false, alpn: options[:http2] == false ? [] : %w[h2 http/1.1])
        client = Gyre::HTTP::Client.new("#{scheme}://127.0.0.1:#{port}", tls: context, proxy: nil, timeout_s: 30, **options)
        exercise(client, protocol)
        Gyre.run { exercise(client, protocol) }
      ensure
        client&.close
      end
    ensure
      Process.kill(:TERM, pid)
      Process.wait(pid)
    end
  end

  private

  def exercise(client, protocol)
    response = client.get("/file")
    assert_equal [protocol, 200, "x" * 300_000], [response.protocol, response.status, response.body]
    assert_equal "xxxx", client.get("/file", headers: { "range" => "bytes=0-3" }).body
    assert_equal [304, ""], client.get("/file", headers: { "if-none-match" => response["etag"] }).then { |again| [again.status, again.body] }
    assert_equal [404, 405], [client.get("/missing").status, client.put("/file", ["y" * 70_000] * 3).status]
    assert_equal "x" * 300_000, client.get("/moved").body
    assert_equal ["gzip", "t" * 50_000], client.get("/text.txt").then { |text| [text["content-encoding"], text.body] }
    assert_equal "", client.head("/file").body
    client.get("/file") { |long| long.each.next }
    assert_equal 200, client.request("OPTIONS", "*").status
  end

  def configure(folder, plain, tls)
    File.write("#{folder}/file", "x" * 300_000)
    File.write("#{folder}/text.txt", "t" * 50_000)
    File.write("#{folder}/pem", GyreTest::HTTPServing.identity.values_at(:cert, :key).join)
    modules = %w[mpm_event authz_core mime deflate filter alias http2 socache_shmcb ssl]
    File.write("#{folder}/apache.conf", <<~CONFIGURATION)
      ServerRoot #{folder}
      ServerName localhost
      PidFile #{folder}/pid
      DefaultRuntimeDir #{folder}
      ErrorLog #{folder}/log
      Listen 127.0.0.1:#{plain}
      Listen 127.0.0.1:#{tls}
      #{modules.map { |name| "LoadModule #{name}_module /usr/lib/apache2/modules/mod_#{name}.so" }.join("\n")}
      TypesConfig /etc/mime.types
      Protocols h2 h2c http/1.1
      DocumentRoot #{folder}
      AddOutputFilterByType DEFLATE text/plain
      Redirect /moved /file
      <VirtualHost 127.0.0.1:#{tls}>
        SSLEngine on
        SSLCertificateFile #{folder}/pem
      </VirtualHost>
    CONFIGURATION
    "#{folder}/apache.conf"
  end
end
