# frozen_string_literal: true

# The keeper of certificates by ACME when its process is killed at a step of an order (each step:
# rake test:acme), when no file can be written, and handshakes meanwhile.

require "test_helper"
require "set"
require "support/acme"

class WebACMEKeeperTest < Minitest::Test
  include GyreTest::ACME

  # Tries every EACH-th step.
  EACH = Integer(ENV.fetch("GYRE_EACH_STEP", "17"))

  # In the process that is killed: counts requests, parts of writes, renames and what is removed.
  class Steps
    def initialize(last)
      @left = last
      steps = self
      [[Gyre::HTTP::Client, :request], [File.singleton_class, :rename], [FileUtils.singleton_class, :rm_f]].each do |place, name|
        place.prepend(Module.new { define_method(name) { |*given, **more, &block| steps.take && super(*given, **more, &block) } })
      end
      IO.prepend(Module.new do
        define_method(:write) { |text| steps.take { super(text[0, text.size / 2]) && fsync } && super(text) }
        define_method(:fsync) { steps.take && super() }
      end)
    end

    # The block does half of a step.
    def take
      return true unless (@left -= 1).zero?

      @left = 2 # for the half's own steps
      yield if block_given?
      Process.kill(:KILL, Process.pid)
    end
  end

  def test_a_kill_at_any_step_of_an_order_leaves_whole_files_and_the_next_order_succeeds
    step = 1
    step += EACH while killed_at?(step)
    assert_operator step, :>, 25
  end

  def test_a_file_that_cannot_be_written_is_an_error_and_the_old_certificate_serves
    store = store(pebble.directory)
    serve(store)
    look(keeper(store))
    before = File.read(store.path(NAME))
    said = in_child do
      trap(:XFSZ, "IGNORE")
      Process.setrlimit(:FSIZE, 200) # the state fits, a certificate does not
      "#{Gyre.run { keeper(store).renew }}\n#{@out.string}"
    end
    assert_equal 2, said.scan("File too large").size, said
    assert_equal before, File.read(store.path(NAME))
    assert_in_delta Time.now.to_f + 63, store.state(NAME)["next_at"], 10
    assert_nil Gyre.run { keeper(store).renew }
  end

  def test_no_handshake_fails_while_certificates_are_renewed
    store = store(pebble.directory)
    serve(store)
    keeper = keeper(store) { @server.reload_tls }
    renewals = Thread.new { Gyre.run { 3.times { keeper.renew } } }
    issuers = Array.new(300) { issuer }
    issuers << issuer while renewals.alive?
    renewals.join
    assert_match(/Pebble/, issuer)
    assert_equal 2, issuers.uniq.size
    assert_match(/development/, issuers.first)
  end

  private

  # Returns false if an order has fewer steps. Each order is the first one of a folder.
  def killed_at?(step)
    @folder = Dir.mktmpdir("gyre", folder = @folder)
    store = store(pebble.directory)
    serve(store, "ssl://127.0.0.1:#{pebble.tls_port}")
    said = in_child { (Steps.new(step) && Gyre.run { keeper(store, plain: false).renew }).inspect }
    restarted = Store.new([NAME], @folder, pebble.directory)
    restarted.prepare(@log) # would log that it replaces a file
    assert(restarted.lock { true })
    assert_operator restarted.state(NAME).fetch("failures", 0), :<=, 1
    Gyre::TLS.server(**restarted.certificates.first.slice(:cert, :key))
    assert_nil Gyre.run { keeper(restarted, plain: false).renew }
    assert restarted.certificate(NAME)
    refute_match(/replaced|No such/, @out.string)
    said.empty?
  ensure
    @server.stop(now: true)
    @server.wait
    @folder = folder
  end

  # Returns the block's text; "" if the child was killed.
  def in_child
    reader, writer = IO.pipe
    child = fork do
      text = yield
      writer.syswrite(text)
      exit!(0)
    end
    writer.close
    reader.read
  ensure
    reader.close
    Process.wait(child)
  end
end
