# frozen_string_literal: true

# Lets subclasses of Gyre::Loop or Gyre::Scheduler override the portable engine's methods. The
# engine is a module that extends the object, so Ruby finds its methods before the subclass's.
# Singleton methods therefore call the subclass's method, whose `super` calls the module's. The
# native engine needs no such methods.

module Gyre
  class Loop
    module Overrides
      # Stands between a subclass and its superclass, so `super` comes here first.
      class WayBack < Module
      end

      # Extends the object with the module `engine`. `base`: the class whose subclasses override.
      def self.install(object, engine, base)
        object.extend(engine)
        subclasses = object.class.ancestors.take_while { |ancestor| !ancestor.equal?(base) }
        names = engine.instance_methods.select { |name| subclasses.any? { |one| one.method_defined?(name, false) } }
        return if names.empty?

        way_back = way_back_of(subclasses.grep(Class).last)
        names.each do |name|
          forward(object.singleton_class, name, "self.class.instance_method(:#{name}).bind_call(self, *arguments, **options, &block)")
          forward(way_back, name, "is_a?(#{engine}) ? #{engine}.instance_method(:#{name}).bind_call(self, *arguments, **options, &block) : super")
        end
      end

      def self.way_back_of(subclass) = subclass.ancestors.grep(WayBack).first || WayBack.new.tap { |way| subclass.include(way) }

      # Defines the method from a text, as Ractors call no methods defined by blocks.
      def self.forward(owner, name, code)
        return if owner.method_defined?(name, false)

        owner.class_eval("def #{name}(*arguments, **options, &block)\n#{code}\nend", __FILE__, __LINE__)
      end
    end
  end
end
