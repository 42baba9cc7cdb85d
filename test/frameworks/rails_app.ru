# frozen_string_literal: true

# A whole Rails application in one file: a database with transactions that wait, a form, an event stream, a file.
# Served by test/frameworks/frameworks_test.rb.

require "rails"
require "active_record/railtie"
require "action_controller/railtie"

class RailsApp < Rails::Application
  config.root = __dir__
  config.eager_load = true
  config.secret_key_base = "0" * 64
  config.hosts.clear
  config.logger = Logger.new($stderr, level: :warn)
  config.active_support.isolation_level = ENV["ISOLATION"].to_sym if ENV["ISOLATION"]
  ENV["DATABASE_URL"] = "sqlite3:#{ENV.fetch("FOLDER")}/test.sqlite3?pool=5&timeout=20000"
end

class Entry < ActiveRecord::Base; end

class EntriesController < ActionController::Base
  skip_forgery_protection

  def count = render(plain: Entry.count.to_s)

  # A half of them is rolled back; were the transaction shared, others would be, too.
  def create
    Entry.transaction do
      sleep 0.02
      Entry.create!(number: params[:number])
      sleep 0.001
      raise ActiveRecord::Rollback if params[:number].to_i.odd?
    end
    head :created
  end

  def file = send_file(__FILE__, type: "text/plain")
end

# Its actions run in threads of their own.
class EventsController < ActionController::Base
  include ActionController::Live

  def index
    response.headers["content-type"] = "text/event-stream"
    3.times { |number| response.stream.write("data: #{number}\n\n") }
  ensure
    response.stream.close
  end
end

RailsApp.initialize!
RailsApp.routes.draw do
  resources :events, only: [:index]
  resources :entries, only: [:create] do
    %i[count file].each { |name| get name, on: :collection }
  end
end
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define { create_table(:entries) { |table| table.integer :number } }

run RailsApp
