package org.example.raindrop.integrations;

import com.baomidou.mybatisplus.annotation.IdType;
import com.baomidou.mybatisplus.annotation.TableId;
import com.baomidou.mybatisplus.annotation.TableName;

/** Has no annotation of its own: its code is the one that the property names. */
@TableName("parcels")
public class Parcel {
  @TableId(type = IdType.ASSIGN_UUID)
  public String id;

  public String customer;
}
