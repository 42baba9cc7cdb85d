# frozen_string_literal: true

# Signal handlers for the time of a block: Gyre::Web::Signals.

require "test_helper"
require "gyre/web/signals"

class WebSignalsTest < Minitest::Test
  def test_the_block_sees_the_signals_by_name
    seen = []
    value = Gyre::Web::Signals.handle(%w[USR1 USR2], ->(name) { seen << name }) do
      %w[USR1 USR2].each do |name|
        Process.kill(name, Process.pid)
        eventually { seen.last == name }
      end
      :value
    end
    assert_equal [%w[USR1 USR2], :value], [seen, value]
  end

  def test_earlier_handlers_come_back_also_after_an_exception
    seen = []
    mine = ->(_number) { seen << :mine }
    before = trap("USR2", mine)
    assert_raises(RuntimeError) { Gyre::Web::Signals.handle(%w[USR2], ->(_name) {}) { raise "no" } }
    Process.kill("USR2", Process.pid)
    eventually { seen == [:mine] }
  ensure
    trap("USR2", before || "DEFAULT")
  end
end
