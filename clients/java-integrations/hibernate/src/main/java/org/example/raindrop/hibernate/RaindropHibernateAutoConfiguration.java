package org.example.raindrop.hibernate;

import org.example.raindrop.RaindropClient;
import org.example.raindrop.spring.RaindropAutoConfiguration;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Gives Hibernate the application's client, for {@link RaindropId}. */
@AutoConfiguration(after = RaindropAutoConfiguration.class)
public class RaindropHibernateAutoConfiguration {
  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(
      org.springframework.boot.autoconfigure.orm.jpa.HibernatePropertiesCustomizer.class)
  static class Boot3 {
    @Bean
    org.springframework.boot.autoconfigure.orm.jpa.HibernatePropertiesCustomizer
        raindropOfHibernate(RaindropClient client) {
      return properties -> properties.put(RaindropId.CLIENT, client);
    }
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(
      org.springframework.boot.hibernate.autoconfigure.HibernatePropertiesCustomizer.class)
  static class Boot4 {
    @Bean
    org.springframework.boot.hibernate.autoconfigure.HibernatePropertiesCustomizer
        raindropOfHibernate(RaindropClient client) {
      return properties -> properties.put(RaindropId.CLIENT, client);
    }
  }
}
