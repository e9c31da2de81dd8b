package org.example.raindrop.wrong;

import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import org.example.raindrop.hibernate.RaindropId;

/** Cannot be mapped, and is where the application does not look for entities. */
@Entity
public class Small {
  @Id
  @RaindropId("small")
  public Integer id;
}
