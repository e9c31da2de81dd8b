package org.example.raindrop.replay;

import com.baomidou.mybatisplus.annotation.IdType;
import com.baomidou.mybatisplus.annotation.TableId;
import com.baomidou.mybatisplus.annotation.TableName;
import com.baomidou.mybatisplus.core.mapper.BaseMapper;
import com.baomidou.mybatisplus.spring.service.impl.ServiceImpl;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.ibatis.annotations.Mapper;
import org.example.raindrop.mybatisplus.RaindropMybatisPlusAutoConfiguration;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.dao.PessimisticLockingFailureException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Service;

/**
 * One replica of the application. It saves batches of rows at the same time as the others, first
 * with the built-in generator of MyBatis-Plus and then with Raindrop, and prints the IDs.
 */
@SpringBootApplication
class Replica {
  private static final int REPLICAS = 5;
  private static final int BATCHES = 20;
  private static final int ROWS = 500;

  @TableName("orders")
  static class Order {
    @TableId(type = IdType.ASSIGN_ID)
    public Long id;

    public String customer = "Ada";
  }

  @Mapper
  interface OrderMapper extends BaseMapper<Order> {}

  @Service
  static class Orders extends ServiceImpl<OrderMapper, Order> {}

  public static void main(String[] arguments) throws Exception {
    System.out.println("pid " + ProcessHandle.current().pid());
    saveBatches(
        "built_in",
        arguments,
        "--spring.autoconfigure.exclude=" + RaindropMybatisPlusAutoConfiguration.class.getName());
    saveBatches("raindrop", arguments);
  }

  private static void saveBatches(String database, String[] arguments, String... more)
      throws Exception {
    String[] all =
        Stream.of(
                Stream.of(arguments),
                Stream.of(more),
                Stream.of("--spring.datasource.url=jdbc:mariadb://10.77.0.1/" + database))
            .flatMap(Function.identity())
            .toArray(String[]::new);
    try (var application = SpringApplication.run(Replica.class, all)) {
      Orders service = application.getBean(Orders.class);
      JdbcTemplate jdbc = application.getBean(JdbcTemplate.class);
      StringBuilder lines = new StringBuilder();
      // All begin together, unless one has died.
      jdbc.update("INSERT INTO ready VALUES ()");
      long ends = System.nanoTime() + TimeUnit.MINUTES.toNanos(3);
      while (jdbc.queryForObject("SELECT COUNT(*) FROM ready", Integer.class) < REPLICAS) {
        if (System.nanoTime() > ends) {
          throw new IllegalStateException("the other replicas are not ready");
        }
        Thread.sleep(5);
      }
      for (int i = 0; i < BATCHES; i++) {
        List<Order> orders = IntStream.range(0, ROWS).mapToObj(row -> new Order()).toList();
        String outcome = "saved";
        try {
          service.saveBatch(orders);
        } catch (DuplicateKeyException | PessimisticLockingFailureException e) {
          // Of two that wait for each other's duplicates, the database ends one.
          outcome = "refused";
        }
        lines.append(database).append(' ').append(outcome).append('\n');
        for (Order order : orders) {
          lines.append(database).append(" id ").append(order.id).append('\n');
        }
      }
      System.out.print(lines);
    }
  }
}
