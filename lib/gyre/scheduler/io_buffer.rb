# frozen_string_literal: true

# Ruby hands each hooked read and write an IO::Buffer, and warns at the first one of a process that
# the class is experimental, though the program does not use it. That first one is made here, with
# the warning off. Required by the scheduler and by the selector for Async.
if defined?(IO::Buffer)
  experimental = Warning[:experimental]
  begin
    Warning[:experimental] = false
    IO::Buffer.new(1).free
  ensure
    Warning[:experimental] = experimental
  end
end
