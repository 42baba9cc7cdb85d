# frozen_string_literal: true

# What gyre/net reports where the extension is not there or ruled out.
require "test_helper"

class NetPortableEngineTest < Minitest::Test
  def test_each_entry_names_the_missing_extension
    calls = ['Gyre.connect("tcp://127.0.0.1:1")', "Gyre.listen(0)", "Gyre.datagram(0)", "Gyre::TLS.client", 'Gyre::Transport.new($stdin, "peer")']
    program = <<~RUBY
      require "gyre/net"
      #{calls.inspect}.each do |call|
        eval(call)
      rescue Gyre::ExtensionRequired => error
        puts error.message[/\\A.* needs Gyre's C extension/]
      end
    RUBY
    output = ruby("-e", program, env: { "GYRE_BACKEND" => "select" })
    expected = %w[Gyre.connect Gyre.listen Gyre.datagram TLS Gyre::Transport].map { |what| "#{what} needs Gyre's C extension\n" }
    assert_equal expected.join, output.out, output.err
  end
end
