package org.example.raindrop.integrations;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.baomidou.mybatisplus.core.toolkit.IdWorker;
import com.baomidou.mybatisplus.extension.toolkit.Db;
import jakarta.persistence.EntityManager;
import jakarta.persistence.EntityManagerFactory;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.stream.IntStream;
import org.example.raindrop.RaindropClient;
import org.example.raindrop.hibernate.RaindropId;
import org.example.raindrop.mybatisplus.RaindropIdentifierGenerator;
import org.example.raindrop.wrong.Small;
import org.example.raindrop.wrong.Ticket;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.jdbc.core.JdbcTemplate;

/** Inserts rows with MyBatis-Plus and with Hibernate, in one application. */
class DatabaseTest {
  private static Service service;
  private static ConfigurableApplicationContext application;

  @BeforeAll
  static void start() throws Exception {
    service = new Service();
    application =
        new SpringApplicationBuilder(Application.class)
            .web(WebApplicationType.NONE)
            .run(
                "--raindrop.urls=" + service.url(),
                "--raindrop.deadline=20s",
                "--raindrop.mybatis-plus.code=parcel",
                "--spring.datasource.url=jdbc:h2:mem:shop",
                "--spring.jpa.hibernate.ddl-auto=create",
                "--spring.main.banner-mode=off",
                "--mybatis-plus.global-config.banner=false",
                "--logging.level.root=warn");
    JdbcTemplate jdbc = application.getBean(JdbcTemplate.class);
    jdbc.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR(100))");
    jdbc.execute("CREATE TABLE primitives (id BIGINT PRIMARY KEY)");
    jdbc.execute("CREATE TABLE parcels (id VARCHAR(32) PRIMARY KEY, customer VARCHAR(100))");
  }

  @AfterAll
  static void stop() throws Exception {
    try {
      application.close();
    } finally {
      service.close();
    }
  }

  private static Order order() {
    Order order = new Order();
    order.customer = "Ada";
    return order;
  }

  @Test
  void mybatis_plus_saves_a_batch_with_ascending_ids() {
    List<Order> orders = IntStream.range(0, 1000).mapToObj(i -> order()).toList();
    assertThat(Db.saveBatch(orders)).isTrue();
    List<Long> ids = orders.stream().map(order -> order.id).toList();
    assertThat(ids).isSorted().doesNotHaveDuplicates();
    assertThat(
            application
                .getBean(JdbcTemplate.class)
                .queryForList("SELECT id FROM orders ORDER BY id", Long.class))
        .containsAll(ids);
  }

  @Test
  void mybatis_plus_keeps_an_id_that_is_set() {
    Order order = order();
    order.id = 7L;
    application.getBean(Application.OrderMapper.class).insert(order);
    assertThat(order.id).isEqualTo(7);
  }

  @Test
  void mybatis_plus_fills_a_primitive_key_and_refuses_one_that_is_too_small() {
    Application.Primitive[] rows = {new Application.Primitive(), new Application.Primitive()};
    assertThat(Db.saveBatch(List.of(rows))).isTrue();
    assertThat(rows[0].id).isPositive().isLessThan(rows[1].id);
    rows[0] = new Application.Primitive();
    rows[0].id = 7;
    assertThat(Db.save(rows[0])).isTrue();
    assertThat(rows[0].id).isEqualTo(7);
    assertThatThrownBy(() -> Db.save(new Application.Small()))
        .hasRootCauseMessage(
            "the key of "
                + Application.Small.class.getName()
                + " is of the type java.lang.Integer, which cannot hold an ID: use long, "
                + "Long or String");
  }

  @Test
  void assign_uuid_gives_the_text_of_an_id_of_the_default_code() {
    Parcel parcel = new Parcel();
    application.getBean(Application.ParcelMapper.class).insert(parcel);
    assertThat(parcel.id).matches("PCL-[0-9]{10,}");
    assertThat(application.getBean(Application.ParcelMapper.class).selectById(parcel.id))
        .isNotNull();
  }

  @Test
  void id_worker_draws_from_the_default_code() {
    long mine = application.getBean(RaindropClient.class).next("parcel");
    assertThat(Math.abs(IdWorker.getId() - mine) >> 22).isLessThan(60_000);
  }

  @Test
  void an_entity_without_a_code_is_an_error_that_names_it() {
    RaindropIdentifierGenerator generator =
        new RaindropIdentifierGenerator(application.getBean(RaindropClient.class), (String) null);
    assertThat(generator.nextId(order())).isPositive();
    assertThatThrownBy(() -> generator.nextId(new Parcel()))
        .hasMessageContaining(Parcel.class.getName())
        .hasMessageContaining("raindrop.mybatis-plus.code");
  }

  @Test
  void hibernate_persists_numbers_and_texts() {
    EntityManager entities = application.getBean(EntityManagerFactory.class).createEntityManager();
    entities.getTransaction().begin();
    Set<Long> ids = new HashSet<>();
    for (int i = 0; i < 100; i++) {
      Invoice invoice = new Invoice();
      entities.persist(invoice);
      ids.add(invoice.id);
    }
    Receipt receipt = new Receipt();
    entities.persist(receipt);
    entities.getTransaction().commit();
    entities.clear();
    assertThat(ids).hasSize(100);
    assertThat(entities.createQuery("SELECT i.id FROM Invoice i", Long.class).getResultList())
        .containsAll(ids);
    assertThat(receipt.getId()).matches("PCL-[0-9]{10,}");
    assertThat(entities.find(Receipt.class, receipt.getId())).isNotNull();
    entities.close();
  }

  @Test
  void hibernate_keeps_an_id_that_is_set() {
    SessionFactory factory =
        application.getBean(EntityManagerFactory.class).unwrap(SessionFactory.class);
    factory.inTransaction(
        session -> {
          session.persist(invoice(7));
          assertThat(session.merge(invoice(8)).id).isEqualTo(8);
          Receipt receipt = new Receipt();
          receipt.setId("mine");
          session.persist(receipt);
        });
    factory.inStatelessTransaction(session -> session.insert(invoice(9)));
    factory.inTransaction(
        session -> {
          for (long id = 7; id <= 9; id++) {
            assertThat(session.find(Invoice.class, id).customer).isEqualTo("Ada " + id);
          }
          assertThat(session.find(Receipt.class, "mine")).isNotNull();
        });
    // A row that is there is changed by merge, and no other one is inserted.
    Invoice changed = invoice(7);
    changed.customer = "Grace";
    factory.inTransaction(session -> session.merge(changed));
    factory.inTransaction(
        session -> assertThat(session.find(Invoice.class, 7L).customer).isEqualTo("Grace"));
  }

  @Test
  void a_stateless_session_draws_an_id_that_is_not_set() {
    SessionFactory factory =
        application.getBean(EntityManagerFactory.class).unwrap(SessionFactory.class);
    Invoice invoice = new Invoice();
    factory.inStatelessTransaction(session -> session.insert(invoice));
    assertThat(invoice.id).isGreaterThan(1L << 32);
  }

  private static Invoice invoice(long id) {
    Invoice invoice = new Invoice();
    invoice.id = id;
    invoice.customer = "Ada " + id;
    return invoice;
  }

  private static Configuration hibernate(Class<?> entity) {
    Configuration configuration = new Configuration().addAnnotatedClass(entity);
    configuration.setProperty("hibernate.connection.url", "jdbc:h2:mem:plain");
    configuration.setProperty("hibernate.hbm2ddl.auto", "create");
    return configuration;
  }

  @Test
  void hibernate_needs_no_spring() {
    RaindropClient client = application.getBean(RaindropClient.class);
    Configuration configuration = hibernate(Invoice.class);
    configuration.getProperties().put(RaindropId.CLIENT, client);
    try (SessionFactory factory = configuration.buildSessionFactory()) {
      Invoice invoice = new Invoice();
      factory.inTransaction(session -> session.persist(invoice));
      assertThat(invoice.id).isPositive();
    }
  }

  @Test
  void hibernate_names_what_is_missing_or_has_the_wrong_type() {
    assertThatThrownBy(() -> hibernate(Invoice.class).buildSessionFactory())
        .hasMessageContaining("Invoice.id")
        .hasMessageContaining("raindrop.client");
    Configuration small = hibernate(Small.class);
    small.getProperties().put(RaindropId.CLIENT, application.getBean(RaindropClient.class));
    assertThatThrownBy(small::buildSessionFactory).hasMessageContaining("not a java.lang.Integer");
  }

  @Test
  void hibernate_fills_attributes_that_are_no_identifiers() {
    Configuration configuration = hibernate(Ticket.class);
    configuration.getProperties().put(RaindropId.CLIENT, application.getBean(RaindropClient.class));
    try (SessionFactory factory = configuration.buildSessionFactory()) {
      Ticket unset = new Ticket();
      Ticket set = new Ticket();
      set.number = 7;
      set.text = "mine";
      set.part.serial = 8L;
      set.uuid = new UUID(5, 6);
      factory.inTransaction(
          session -> {
            session.persist(unset);
            session.persist(set);
          });
      for (Ticket ticket : List.of(unset, set)) {
        factory.inTransaction(session -> session.find(Ticket.class, ticket.id).note = "updated");
      }
      Ticket found = factory.fromSession(session -> session.find(Ticket.class, unset.id));
      assertThat(Set.of(found.id, found.number, found.part.serial))
          .hasSize(3)
          .allMatch(id -> id > 1L << 32);
      assertThat(found.text).matches("PCL-[0-9]{10,}");
      assertThat(found.uuid.version()).isEqualTo(7);
      assertThat(found).usingRecursiveComparison().ignoringFields("note").isEqualTo(unset);
      found = factory.fromSession(session -> session.find(Ticket.class, set.id));
      assertThat(found).usingRecursiveComparison().ignoringFields("note").isEqualTo(set);
      assertThat(List.of(found.number, found.text, found.part.serial, found.uuid))
          .isEqualTo(List.of(7L, "mine", 8L, new UUID(5, 6)));
      List<UUID> drawn =
          factory.fromTransaction(
              session ->
                  IntStream.range(0, 300)
                      .mapToObj(
                          i -> {
                            Ticket ticket = new Ticket();
                            session.persist(ticket);
                            session.flush();
                            return ticket.uuid;
                          })
                      .toList());
      List<UUID> stored =
          factory.fromSession(
              session ->
                  session
                      .createQuery("SELECT t.uuid FROM Ticket t ORDER BY t.uuid", UUID.class)
                      .getResultList());
      // The columns of two rows were filled before.
      assertThat(stored.subList(2, 302)).isEqualTo(drawn);
    }
  }

  @Test
  void uuid_columns_of_postgresql_are_ordered_as_issued() throws Exception {
    try (Postgres postgres = new Postgres()) {
      Configuration configuration = hibernate(Ticket.class);
      configuration.setProperty("hibernate.connection.url", postgres.url());
      RaindropClient client = application.getBean(RaindropClient.class);
      configuration.getProperties().put(RaindropId.CLIENT, client);
      try (SessionFactory factory = configuration.buildSessionFactory()) {
        List<Ticket> tickets = IntStream.range(0, 1000).mapToObj(i -> new Ticket()).toList();
        factory.inTransaction(session -> tickets.forEach(session::persist));
        List<UUID> drawn = tickets.stream().map(ticket -> ticket.uuid).toList();
        assertThat(drawn).allMatch(uuid -> uuid.version() == 7).doesNotHaveDuplicates();
        String ordered = "SELECT uuid FROM Ticket ORDER BY uuid";
        List<UUID> stored =
            factory.fromSession(
                session -> session.createNativeQuery(ordered, UUID.class).getResultList());
        assertThat(stored).isEqualTo(drawn);
        String column =
            "SELECT data_type FROM information_schema.columns "
                + "WHERE table_name = 'ticket' AND column_name = 'uuid'";
        String type =
            factory.fromSession(
                session -> session.createNativeQuery(column, String.class).getSingleResult());
        assertThat(type).isEqualTo("uuid");
      }
    }
  }

  @Test
  void an_annotated_id_is_a_string_of_json() throws Exception {
    Class<?> type;
    try {
      type = Class.forName("tools.jackson.databind.ObjectMapper"); // Boot 4 has Jackson 3.
    } catch (ClassNotFoundException e) {
      type = Class.forName("com.fasterxml.jackson.databind.ObjectMapper");
    }
    Object mapper = application.getBean(type);
    Order order = order();
    order.id = Long.MAX_VALUE;
    Object json = type.getMethod("writeValueAsString", Object.class).invoke(mapper, order);
    assertThat(json).asString().contains("\"id\":\"9223372036854775807\"");
    Object read =
        type.getMethod("readValue", String.class, Class.class).invoke(mapper, json, Order.class);
    assertThat(((Order) read).id).isEqualTo(order.id);
  }
}
