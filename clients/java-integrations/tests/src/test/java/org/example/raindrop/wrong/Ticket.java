package org.example.raindrop.wrong;

import jakarta.persistence.Embeddable;
import jakarta.persistence.Embedded;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import java.util.UUID;
import org.example.raindrop.hibernate.RaindropId;

/** Has annotated attributes that are no identifiers. Only its test maps it. */
@Entity
public class Ticket {
  @Id
  @RaindropId("ticket")
  public Long id;

  @RaindropId("number")
  public long number;

  @RaindropId("parcel")
  public String text;

  @RaindropId("ticket")
  public UUID uuid;

  public String note;
  @Embedded public Part part = new Part();

  @Embeddable
  public static class Part {
    @RaindropId("part")
    public Long serial;
  }
}
