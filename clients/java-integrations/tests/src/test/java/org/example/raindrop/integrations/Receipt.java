package org.example.raindrop.integrations;

import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import org.example.raindrop.hibernate.RaindropId;

/** Has a text with the code's prefix, and gets it by a method. */
@Entity
public class Receipt {
  private String id;

  @Id
  @RaindropId("parcel")
  public String getId() {
    return id;
  }

  public void setId(String id) {
    this.id = id;
  }
}
