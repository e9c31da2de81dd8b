package org.example.raindrop.integrations;

import com.fasterxml.jackson.annotation.JsonFormat;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import org.example.raindrop.hibernate.RaindropId;

@Entity
public class Invoice {
  @Id
  @RaindropId("invoice")
  @JsonFormat(shape = JsonFormat.Shape.STRING)
  public Long id;

  public String customer;
}
