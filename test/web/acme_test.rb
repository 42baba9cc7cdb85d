# frozen_string_literal: true

# Certificates by ACME: an authority (Debian's pebble, which refuses 30 of 100 nonces), the answers
# to its challenges, the folder, times of renewal, failures.

require "test_helper"
require "minitest/mock"
require "support/acme"
require "gyre/web/config"

class WebACMETest < Minitest::Test
  include GyreTest::ACME

  # The guide's programs for dns-01: the configuration's hook, and rules of a DNS server.
  GUIDE = File.read(File.expand_path("../../docs/deploy.md", __dir__))
  HOOK, RULES = ["dns_challenge do", "match("].map { |word| GUIDE.scan(/^ *```ruby\n(.*?)^ *```/m).flatten.find { |code| code.include?(word) } }
  TEXTS = "/var/lib/app/challenges"

  class << self
    attr_accessor :texts
  end

  # --- orders ---

  def test_a_certificate_comes_while_the_server_serves_with_a_self_signed_one
    store = store(pebble.directory)
    serve(store)
    assert_equal "503", get("/ready").code
    assert_equal [NAME], @server.snapshot.fetch("certificates_missing")
    assert_match(/development/, issuer)
    keeper = keeper(store) { @server.reload_tls }
    look(keeper)
    assert_match(/Pebble Intermediate/, issuer)
    assert_equal 3, chain.size
    assert_equal ["200", []], [get("/ready").code, @server.snapshot.fetch("certificates_missing")]
    assert_equal 0o600, File.stat(store.path(NAME)).mode & 0o777
    first = store.certificate(NAME).serial
    look(keeper)
    assert_equal first, store.certificate(NAME).serial # not before its time
    assert_nil Gyre.run { keeper.renew }
    refute_equal first, store.certificate(NAME).serial
  end

  def test_a_failed_order_waits_also_in_the_next_process_and_disturbs_no_other_name
    store = store(pebble.directory, "other.example.org", NAME)
    serve(store(pebble.directory)) # answers for one of them only
    look(keeper(store))
    assert store.certificate(NAME)
    assert_match(/acme: other.example.org: .*; the next try is in 6\d s/, @out.string)
    assert_match(/unauthorized/, keeper(store).status.first[:error])
    @out.truncate(0)
    look(keeper(store))
    assert_empty @out.string
    assert_includes Gyre.run { keeper(store).renew }, "other.example.org: "
    assert_in_delta Time.now.to_f + 630, store.state("other.example.org")["next_at"], 40
  end

  def test_without_a_plain_port_the_authority_validates_over_https
    store = store(pebble.directory)
    serve(store, "ssl://127.0.0.1:#{pebble.tls_port}")
    look(keeper(store, plain: false) { @server.reload_tls })
    assert_match(/Pebble Intermediate/, issuer)
    assert_empty Dir.glob("**/*.challenge", base: @folder)
  end

  def test_another_machine_with_the_accounts_key_answers_the_challenge
    File.write(path = File.join(@folder, "account.pem"), Key.generate)
    one, other = %w[one other].map { |folder| Store.new([NAME], File.join(@folder, folder), pebble.directory, path) }
    [one, other].each { |store| store.prepare(@log) }
    serve(other)
    look(keeper(one))
    assert_equal [true, false], [one, other].map { |store| !store.certificate(NAME).nil? }
  end

  # The authority asks the guide's DNS server for the records that the guide's hook writes.
  def test_wildcards_are_validated_by_records_of_a_zone
    hook = guided_hook
    store = store(pebble.directory, "example.org", "*.example.org")
    look(keeper(store, dns_challenge: hook))
    names = store.names.map { |name| store.certificate(name).extensions.find { |each| each.oid == "subjectAltName" }.value }
    assert_equal %w[DNS:example.org DNS:*.example.org], names
    assert_path_exists File.join(File.dirname(store.path("example.org")), "_.example.org.pem")
    assert_empty texts
    2.times { |number| hook.call("_acme-challenge.example.org", "text #{number}", true) } # as two orders at a time
    assert_equal ["text 0", "text 1"], texts
    hook.call("_acme-challenge.example.org", "text 0", false)
    assert_equal ["text 1"], texts
  ensure
    FileUtils.rm_f(Dir.glob("#{self.class.texts}/*"))
  end

  def test_a_hook_that_fails_fails_the_order_unless_the_certificate_is_there
    set = guided_hook
    store = store(pebble.directory, "*.example.org")
    look(keeper(store, dns_challenge: ->(*) { raise IOError, "no zone" }))
    assert_equal "dns_challenge: no zone (IOError)", store.state("*.example.org")["error"]
    assert_match(/a record of example.org: no zone/, @out.string)
    assert_nil Gyre.run { keeper(store, dns_challenge: ->(*given) { given.last ? set.call(*given) : raise(IOError, "gone") }).renew }
    assert store.certificate("*.example.org")
  ensure
    FileUtils.rm_f(Dir.glob("#{self.class.texts}/*"))
  end

  # As `gyre ctl renew` does.
  def test_a_request_of_the_control_socket_may_call_the_hook
    told = []
    _, prepare = keeper.send(:challenge, ->(*given) { told << given }, true)
    server = Gyre::Web::Server.new(->(_) { prepare.call(NAME, "proof", true) && [200, {}, []] }, bind: "tcp://127.0.0.1:0", log: @log).start
    assert_equal "200", Net::HTTP.get_response(URI(server.urls.first)).code
    assert_equal ["_acme-challenge.#{NAME}", Key.base64(Digest::SHA256.digest("proof")), true], told.first
  ensure
    server&.stop(now: true)
    server&.wait
  end

  def test_a_hook_that_never_ends_holds_no_other_order
    _, prepare = keeper.send(:challenge, ->(*) { sleep }, true)
    Gyre::Testing.run do |task|
      error = assert_raises(Refused) { task.with_timeout(1000) { prepare.call(NAME, "proof", true) } }
      assert_match(/\Adns_challenge: .*\(Timeout::Error\)/, error.message)
    end
  end

  def test_an_account_may_be_bound_to_another
    key = key()
    bound = key.bind("id:c2VjcmV0", "https://a.test/new")
    assert_equal({ "alg" => "HS256", "kid" => "id", "url" => "https://a.test/new" }, JSON.parse(bound[:protected].unpack1("m")))
    text = bound.values_at(:protected, :payload).join(".")
    assert_equal Key.base64(OpenSSL::HMAC.digest("SHA256", "secret", text)), bound[:signature]
  end

  # --- times ---

  def test_a_third_of_the_lifetime_is_left_for_the_renewal_and_half_of_a_short_one
    day = 86_400
    { [90 * day, 31 * day] => 1, [90 * day, 29 * day] => -1, [6 * day, 3.1 * day] => 1, [6 * day, 2.9 * day] => -1 }.each do |(lifetime, left), sign|
      assert_equal sign, keeper.send(:left, authority, certificate(lifetime, left)).first <=> 0
    end
  end

  def test_the_authoritys_window_moves_a_renewal_forward_never_back
    current = certificate(90 * 86_400, 60 * 86_400)
    assert_in_delta(-3600, keeper.send(:left, authority(suggested: [Time.now.to_f - 3600, 60]), current).first, 5)
    assert_in_delta 30 * 86_400, keeper.send(:left, authority(suggested: [Time.now.to_f + (90 * 86_400), 60]), current).first, 5
    # The authority's clock counts.
    assert_in_delta 20 * 86_400, keeper.send(:left, authority(skew_s: 10 * 86_400), current).first, 5
    failing = authority
    failing.define_singleton_method(:suggestion) { |_| raise Refused, "no such thing" }
    assert_in_delta 30 * 86_400, keeper.send(:left, failing, current).first, 5
    assert_match(/suggests no time of renewal: no such thing/, @out.string)
  end

  def test_a_certificate_that_was_replaced_before_is_ordered_without_its_id
    sent = []
    authority = Authority.new("https://a.test/dir", key, challenge: nil)
    authority.define_singleton_method(:directory) { { "newOrder" => "https://a.test/order" } }
    authority.define_singleton_method(:post) do |_url, payload|
      sent << payload
      raise Refused, { "type" => "urn:ietf:params:acme:error:alreadyReplaced" } if payload[:replaces]

      Struct.new(:json).new({}).tap { |response| response.define_singleton_method(:[]) { |_| "https://a.test/1" } }
    end
    authority.send(:create, NAME, nil, "former")
    assert_equal ["former", nil], sent.map { |payload| payload[:replaces] }
  end

  def test_the_authority_may_ask_to_wait_longer
    store = store()
    keeper = keeper(store)
    limited = ->(*, **) { raise Refused.new({ "type" => "urn:ietf:params:acme:error:rateLimited" }, 500_000) }
    Authority.stub(:new, limited) { 2.times { look(keeper) } }
    assert_in_delta Time.now.to_f + 500_000, store.state(NAME)["next_at"], 5
    assert_equal 1, @out.string.scan("acme: #{NAME}: rateLimited; the next try is in 500000 s").size
  end

  # A certificate may have been removed, and a clock set back.
  def test_a_missing_certificate_and_a_time_far_ahead_wait_for_nothing
    store = store()
    [1800, 80 * 86_400].each do |ahead|
      store.write("#{NAME}.json", JSON.generate("next_at" => Time.now.to_f + ahead))
      tried = 0
      Authority.stub(:new, ->(*, **) { (tried += 1) && raise(Refused, "later") }) { look(keeper(store)) }
      assert_equal 1, tried
    end
  end

  # --- the folder ---

  def test_one_of_the_processes_orders_and_the_others_see_the_new_certificate
    first, second = Array.new(2) { store() }
    told = 0
    watching = keeper(second) { told += 1 }
    first.lock { look(watching) }
    assert_empty second.state(NAME)
    first.write("#{NAME}.pem", File.read(first.path(NAME)))
    first.lock { 2.times { look(watching) } }
    assert_equal 1, told
  end

  # It counts as failed before it begins.
  def test_a_process_that_is_killed_within_an_order_or_a_write_leaves_a_whole_folder
    store = store()
    before = File.read(store.path(NAME))
    killed { Authority.stub(:new, ->(*, **) { Process.kill(:KILL, Process.pid) }) { look(keeper(store)) } }
    assert_in_delta Time.now.to_f + 63, store.state(NAME)["next_at"], 10
    assert_equal 1, store.state(NAME)["failures"]
    killed { File.stub(:rename, ->(*) { Process.kill(:KILL, Process.pid) }) { store.write("#{NAME}.pem", "half") } }
    assert_equal before, File.read(store.path(NAME))
    assert store.lock { true } # of the killed process
  end

  def test_a_full_disk_orders_nothing
    store = store()
    store.stub(:write, ->(*) { raise Errno::ENOSPC }) { Authority.stub(:new, ->(*, **) { flunk }) { look(keeper(store)) } }
    assert_match(/gyre: acme: No space left on device/, @out.string)
    store.stub(:write, ->(*) { raise Errno::ENOSPC }) { assert_equal "No space left on device", Gyre.run { keeper(store).renew } }
  end

  def test_a_broken_certificate_is_replaced_and_thrusters_are_taken_over
    broken = store().path(NAME)
    certificate, key = File.read(broken).split(/(?<=END CERTIFICATE-----\n)/)
    former = { NAME => "#{key}#{certificate}", "acme_account+key" => Key.generate }
    former.each { |name, text| File.write(File.join(@folder, name), text) }
    store = store("https://other.test/dir")
    assert_equal former.values, [store.path(NAME), store.path("account")].map { |path| File.read(path) }
    File.write(broken, "rubbish")
    store()
    assert_match(/#{NAME}.pem has no certificate with its key: replaced/, @out.string)
    FileUtils.mkdir_p(thruster = File.join(@folder, "storage/thruster"))
    former.each { |name, text| File.write(File.join(thruster, name), text) }
    store = Store.new([NAME], File.join(@folder, "storage/acme"), "https://other.test/dir").tap { |each| each.prepare(@log) }
    assert_equal former.values, [store.path(NAME), store.path("account")].map { |path| File.read(path) }
  end

  def test_a_folder_that_ends_with_its_container_is_known
    table = File.join(@folder, "mountinfo")
    kinds = { "/" => "overlay", @folder => "ext4", "#{@folder}/run" => "tmpfs" }
    File.write(table, kinds.map { |point, kind| "1 2 0:3 / #{point} rw shared:1 - #{kind} none rw\n" }.join)
    { "/nowhere" => "overlay", "#{@folder}/kept" => nil, "#{@folder}/run/x" => "tmpfs", "#{@folder}/running" => nil }.each do |folder, kind|
      FileUtils.mkdir_p(folder) unless folder == "/nowhere"
      assert_equal [kind], [Store.new([NAME], folder, "https://a.test/dir").fleeting(table)], folder
    end
  end

  def test_a_folder_that_cannot_be_written_ends_the_start_with_the_way_out
    refusing = ->(*, **) { raise Errno::EROFS, "/var/lib/gyre" }
    error = FileUtils.stub(:mkdir_p, refusing) { assert_raises(Gyre::StartError) { store() } }
    assert_equal "acme: Read-only file system - /var/lib/gyre. This user must be able to write in #{@folder}; " \
                 "acme_folder names another", error.message
  end

  def test_a_key_of_another_kind_is_refused
    path = File.join(@folder, "p384.pem")
    File.write(path, OpenSSL::PKey::EC.generate("secp384r1").to_pem)
    error = assert_raises(Gyre::StartError) { Store.new([NAME], @folder, "https://a.test/dir", path).prepare(@log) }
    assert_includes error.message, "EC key (P-256)"
  end

  def test_a_ruby_without_openssl_is_told_in_one_line
    program = 'def require(name) = name == "openssl" ? raise(LoadError) : super; require "gyre/web/acme/key"'
    run = ruby("-e", program)
    assert_match(/acme needs Ruby's openssl, which is missing: install/, run.err)
  end

  private

  def begin_pebble(program)
    self.class.texts = Dir.mktmpdir("gyre").tap { |folder| Minitest.after_run { FileUtils.rm_rf(folder) } }
    GyreTest::Pebble.new(program, rules: RULES.gsub(TEXTS, self.class.texts))
  end

  def guided_hook = Gyre::Web::Config.new("gyre.rb").evaluate(HOOK.gsub(TEXTS, self.class.texts)).fetch(:dns_challenge)

  def texts
    Gyre::DNS::Resolver.new(pebble.name_server).records("_ACME-challenge.example.org", "TXT").flat_map { |record| record.resource.strings }
  end

  def authority(suggested: nil, skew_s: 0)
    Struct.new(:skew_s, :suggested) { def suggestion(_) = suggested }.new(skew_s, suggested)
  end

  def certificate(lifetime_s, left_s)
    Struct.new(:not_before, :not_after).new(Time.now + left_s - lifetime_s, Time.now + left_s)
  end

  def get(path) = Net::HTTP.get_response(URI("http://127.0.0.1:#{pebble.http_port}#{path}"))
end
