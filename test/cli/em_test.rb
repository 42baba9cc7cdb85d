# frozen_string_literal: true

# `gyre em` runs programs of EventMachine, also where they ask RubyGems for that gem.
require "test_helper"

class CLIEmTest < Minitest::Test
  PROGRAM = <<~RUBY
    gem "eventmachine", ">= 1.0.3"
    require "eventmachine"
    require "em/completion"
    EM.run { EM::Completion.new.tap { |done| done.callback { |text| puts text; EM.stop } }.succeed("\#{EM} \#{ARGV} \#{$0 == __FILE__}") }
  RUBY

  def gyre(*arguments, env: {})
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "app.rb"), PROGRAM)
      return run_program(*ruby_command(EXE, "em", *arguments, env: env.transform_values { folder }), chdir: folder)
    end
  end

  def test_a_program_gets_gyre_as_eventmachine
    output = gyre("app.rb", "--flag", "word")
    assert_equal ["Gyre::EventMachine [\"--flag\", \"word\"] true\n", "", 0], [output.out, output.err, output.status.exitstatus]
  end

  def test_a_command_is_found_in_the_path
    output = gyre("app.rb", env: { "PATH" => nil })
    assert_equal ["Gyre::EventMachine [] true\n", ""], [output.out, output.err]
  end

  def test_rubygems_knows_the_gem_as_the_scripts_that_it_installs_ask
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "app.rb"), "Gem.finish_resolve\n#{PROGRAM}")
      command = ruby_command(EXE, "em", "app.rb", env: { "RUBYOPT" => nil, "GEM_HOME" => folder, "GEM_PATH" => folder })
      assert_equal ["Gyre::EventMachine [] true\n", ""], run_program(*command, chdir: folder).to_a.first(2)
    end
  end

  def test_constants_of_a_gem_that_opens_the_module_first_stay
    program = <<~RUBY
      module EventMachine
        module Early
          def self.interval = Timer.instance_method(:initialize).arity
        end
      end
      require "eventmachine"
      require "em/protocols/line_protocol"
      p EventMachine::Early.interval, EM::Early, EM::Protocols::LineProtocol, EventMachine.equal?(Gyre::EventMachine)
    RUBY
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "app.rb"), program)
      output = run_program(*ruby_command(EXE, "em", "app.rb"), chdir: folder)
      assert_equal ["-2\nEventMachine::Early\nEventMachine::Protocols::LineProtocol\ntrue\n", ""], [output.out, output.err]
    end
  end

  def test_a_callbacks_stack_is_as_large_as_the_programs
    skip "needs /proc" unless File.exist?("/proc/self/cmdline")
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "app.rb"), <<~RUBY)
        require "eventmachine"
        def dig(depth) = depth.zero? ? 0 : dig(depth - 1) + 1
        EM.run { EM.next_tick { puts(dig(8_000)) || EM.stop } }
      RUBY
      small = { "RUBY_FIBER_VM_STACK_SIZE" => nil, "RUBY_FIBER_MACHINE_STACK_SIZE" => nil }
      output = run_program(*ruby_command(EXE, "em", "app.rb", env: small), chdir: folder)
      assert_equal ["8000\n", ""], [output.out, output.err]
    end
  end

  def test_a_program_has_its_data_and_ends_without_an_exception
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "app.rb"), "at_exit { p $! }\nputs DATA.read\n__END__\ndata\n")
      assert_equal ["data\nnil\n", ""], run_program(*ruby_command(EXE, "em", "app.rb"), chdir: folder).to_a.first(2)
    end
  end

  def test_a_missing_program_is_named
    output = gyre("none.rb")
    assert_equal [1, "gyre em: none.rb: no such file, and no command of that name in the PATH\n"], [output.status.exitstatus, output.err]
  end

  def test_help_has_the_usage
    assert_includes gyre("--help").out, "gyre em PROGRAM"
    assert_equal [2, "gyre em: PROGRAM is missing\n"], gyre.then { |output| [output.status.exitstatus, output.err] }
  end
end
