# frozen_string_literal: true

# The certificate of `gyre serve --tls`: Gyre::Web::DevelopmentCertificate.

require "test_helper"
require "tmpdir"
require "gyre/web/development_certificate"

class DevelopmentCertificateTest < Minitest::Test
  def setup
    @parent = Dir.mktmpdir("gyre")
    @folder = File.join(@parent, "gyre", "tls")
  end

  def teardown
    FileUtils.rm_rf(@parent)
    super
  end

  def test_it_is_for_this_machine
    certificate = read(make)
    assert_equal "DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1", names(certificate)
    assert OpenSSL::X509::Store.new.add_cert(certificate).verify(certificate)
    assert_in_delta Time.now + (365 * 86_400), certificate.not_after, 60
  end

  def test_it_is_for_the_hosts_that_are_served_as_well
    certificate = make(hosts: ["dev.example.org", "192.0.2.1", "localhost", "0.0.0.0"])
    assert_equal "DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1, DNS:dev.example.org, IP Address:192.0.2.1",
                 names(read(certificate))
    assert_includes names(read(make(hosts: ["*"]))), "DNS:#{Socket.gethostname.downcase}"
    refute_equal make.path, certificate.path
  end

  def test_it_is_kept_for_its_owner_alone
    first = make
    pem = first.pem
    assert_equal pem, make.pem
    assert_equal [0o100600, 0o40700], [File.stat(first.path).mode, File.stat(@folder).mode]
    assert_equal [first.path], Dir[File.join(@folder, "*")]
  end

  def test_threads_that_make_it_at_once_all_get_one
    assert_empty(Array.new(6) { Thread.new { make.pem } }.map(&:value).reject { |pem| pem.start_with?("-----BEGIN CERTIFICATE") })
    assert_equal [make.path], Dir[File.join(@folder, "*")]
  end

  def test_a_useless_certificate_is_made_again
    path = make.path
    { "rubbish" => ->(_) { File.write(path, "rubbish") }, "readable" => ->(_) { File.chmod(0o644, path) },
      "a link" => ->(pem) { File.rename(path, "#{path}.1") && File.symlink("#{path}.1", path) && pem },
      "almost over" => ->(_) { move_end(path) } }.each do |what, change|
      pem = make.pem
      change.call(pem)
      refute_equal pem, make.pem, what
      assert_equal 0o100600, File.lstat(path).mode, what
    end
  end

  def test_where_it_cannot_be_kept_is_named
    file = File.join(@parent, "file")
    File.write(file, "")
    error = assert_raises(Gyre::StartError) { Gyre::Web::DevelopmentCertificate.new(folder: File.join(file, "gyre")).pem }
    assert_match(/cannot be kept: .*#{file}.*; XDG_CACHE_HOME names/, error.message)
  end

  private

  def make(**options) = Gyre::Web::DevelopmentCertificate.new(folder: @folder, **options)

  def read(certificate) = OpenSSL::X509::Certificate.new(certificate.pem)

  def names(certificate) = certificate.extensions.find { |extension| extension.oid == "subjectAltName" }.value

  # The same certificate, but it ends in six days.
  def move_end(path)
    key = OpenSSL::PKey.read(File.read(path))
    certificate = OpenSSL::X509::Certificate.new(File.read(path))
    certificate.not_after = Time.now + (6 * 86_400)
    File.write(path, certificate.sign(key, OpenSSL::Digest.new("SHA256")).to_pem + key.to_pem)
  end
end
