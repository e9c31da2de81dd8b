package org.example.raindrop.integrations;

import com.baomidou.mybatisplus.annotation.IdType;
import com.baomidou.mybatisplus.annotation.TableId;
import com.baomidou.mybatisplus.annotation.TableName;
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

  @TableName("primitives")
  static class Primitive {
    @TableId(type = IdType.ASSIGN_ID)
    public long id;
  }

  @Mapper
  interface PrimitiveMapper extends BaseMapper<Primitive> {}

  @TableName("primitives")
  static class Small {
    @TableId(type = IdType.ASSIGN_ID)
    public Integer id;
  }

  @Mapper
  interface SmallMapper extends BaseMapper<Small> {}
}
