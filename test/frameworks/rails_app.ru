# frozen_string_literal: true

# A whole Rails application in one file: a database with transactions that wait, a form, an event stream, a file.
# Served by test/frameworks/frameworks_test.rb.

require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "active_storage/engine"

class RailsApp < Rails::Application
  config.root = __dir__
  config.eager_load = true
  config.secret_key_base = "0" * 64
  config.hosts.clear
  config.logger = Logger.new($stderr)
  config.log_level = :warn # every request's lines would fill the pipe to a test, and it would wait
  config.active_support.isolation_level = ENV["ISOLATION"].to_sym if ENV["ISOLATION"]
  config.active_storage.service = :disk
  config.active_storage.service_configurations = { "disk" => { "service" => "Disk", "root" => ENV.fetch("FOLDER") } }
  ENV["DATABASE_URL"] ||= "sqlite3:#{ENV.fetch("FOLDER")}/test.sqlite3?pool=5&timeout=20000"
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

  # Waits in the database, PostgreSQL.
  def slow = render(plain: Entry.connection.select_value("SELECT 'slept' FROM pg_sleep(0.3)"))

  # Waits until it is cancelled.
  def stuck = sleep

  # A form with a file, stored and sent again by its own service.
  def upload
    entry = Entry.create!(number: 1)
    entry.document.attach(params[:file])
    redirect_to Rails.application.routes.url_helpers.rails_blob_path(entry.document, only_path: true), status: :see_other
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

RailsApp.routes.append do
  resources :events, only: [:index]
  resources :entries, only: [:create] do
    %i[count file slow stuck].each { |name| get name, on: :collection }
    post :upload, on: :collection
  end
end
RailsApp.initialize!
Entry.has_one_attached :document
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table(:entries) { |table| table.integer :number }
  create_table :active_storage_blobs do |table|
    table.string :key, :filename, :content_type, :service_name, :checksum
    table.text :metadata
    table.bigint :byte_size
    table.datetime :created_at
  end
  create_table :active_storage_attachments do |table|
    table.string :name
    table.references :record, polymorphic: true
    table.references :blob
    table.datetime :created_at
  end
end

run RailsApp
