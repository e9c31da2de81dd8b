package org.example.raindrop.integrations;

import com.baomidou.mybatisplus.core.mapper.BaseMapper;
import org.apache.ibatis.annotations.Mapper;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** An application with MyBatis-Plus, and with Hibernate for other tables. */
@SpringBootApplication
class Application {
  @Mapper
  interface OrderMapper extends BaseMapper<Order> {}

  @Mapper
  interface ParcelMapper extends BaseMapper<Parcel> {}
}
