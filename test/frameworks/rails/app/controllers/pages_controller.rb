# frozen_string_literal: true

# Shows which code it runs on.
class PagesController < ActionController::Base
  def version
    render plain: "#{Version.number} #{ActiveSupport::IsolatedExecutionState.isolation_level} #{Fiber.scheduler.class}"
  end

  # Its class must be the same before and after the wait, whatever changes meanwhile.
  def wait
    before = Version
    File.write(Rails.root.join("waiting"), "")
    sleep 0.01 until Rails.root.join("go").exist?
    render plain: "#{before.number} #{before.equal?(Version)}"
  end
end
