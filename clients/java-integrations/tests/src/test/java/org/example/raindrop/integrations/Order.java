package org.example.raindrop.integrations;

import com.baomidou.mybatisplus.annotation.IdType;
import com.baomidou.mybatisplus.annotation.TableId;
import com.baomidou.mybatisplus.annotation.TableName;
import com.fasterxml.jackson.annotation.JsonFormat;
import org.example.raindrop.mybatisplus.RaindropCode;

@TableName("orders")
@RaindropCode("order")
public class Order {
  @TableId(type = IdType.ASSIGN_ID)
  @JsonFormat(shape = JsonFormat.Shape.STRING)
  public Long id;

  public String customer;
}
