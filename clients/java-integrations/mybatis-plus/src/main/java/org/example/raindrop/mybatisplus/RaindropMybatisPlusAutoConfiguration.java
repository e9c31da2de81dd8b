package org.example.raindrop.mybatisplus;

import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import org.example.raindrop.RaindropClient;
import org.example.raindrop.spring.RaindropAutoConfiguration;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;

/**
 * Replaces the ID generator of MyBatis-Plus by {@link RaindropIdentifierGenerator}, unless the
 * application has one.
 */
@AutoConfiguration(
    after = RaindropAutoConfiguration.class,
    beforeName = "com.baomidou.mybatisplus.autoconfigure.IdentifierGeneratorAutoConfiguration")
@EnableConfigurationProperties(RaindropMybatisPlusAutoConfiguration.Properties.class)
public class RaindropMybatisPlusAutoConfiguration {
  @Bean
  @ConditionalOnMissingBean(IdentifierGenerator.class)
  RaindropIdentifierGenerator raindropIdentifierGenerator(
      RaindropClient client, Properties properties) {
    return new RaindropIdentifierGenerator(client, properties.code());
  }

  /**
   * Settings of the generator.
   *
   * @param code Code of the IDs of entities without a RaindropCode annotation.
   */
  @ConfigurationProperties("raindrop.mybatis-plus")
  record Properties(String code) {}
}
