# frozen_string_literal: true

# Runs one of CRuby's test files with CRuby's own test library: `ruby runner.rb RUBY_SOURCE RESULTS
# FILE`. Each test leaves lines in RESULTS: "started NAME", then "passed NAME", or "failed" or
# "omitted" with the reason behind a tab; "finished" at the end. So a test that takes the process
# with it, or that does not end, is known by its name.
source, results, file = ARGV
ARGV.replace([])
$LOAD_PATH.unshift(File.join(source, "tool", "lib"))
Warning[:experimental] = false
require "test/unit"
require "tempfile" # a test needs it, and relies on others for it

RESULTS = File.open(results, "a")
RESULTS.sync = true

# Prepended to CRuby's runner.
module RecordResults
  def _start_method(test)
    RESULTS.puts "started #{test.class}##{test.__name__}"
    super
  end

  # A test whose teardown fails as well comes here twice.
  def record(suite, method, _assertions, _time, error, *)
    verdict = case error
              when nil then "passed"
              when Test::Unit::PendedError then "omitted"
              else "failed"
              end
    RESULTS.puts "#{verdict} #{suite}##{method}\t#{"#{error.class}: #{error.message}".tr("\t\n", "  ") if error}"
    super
  end
end
Test::Unit::Runner.prepend(RecordResults)

passed = Test::Unit::AutoRunner.run(true, File.join(source, "test"), [file])
RESULTS.puts "finished"
exit passed
